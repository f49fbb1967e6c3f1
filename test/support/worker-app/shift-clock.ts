// Preloaded: from here on this process believes in another time of day. Timers and performance.now(), which
// don't follow the time of day, are left alone.
const shift = Number(process.env['CLOCK_SHIFT_MS']);
const RealDate = Date;

globalThis.Date = new Proxy(RealDate, {
  construct: (target, args: unknown[], newTarget) =>
    Reflect.construct(
      target,
      args.length === 0 ? [RealDate.now() + shift] : args,
      newTarget,
    ) as Date,
  apply: () => new RealDate(RealDate.now() + shift).toString(),
  get: (target, key) =>
    key === 'now' ? () => RealDate.now() + shift : (Reflect.get(target, key) as unknown),
});
