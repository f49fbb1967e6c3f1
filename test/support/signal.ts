/** Something that happens once and can be waited for: tests say when, instead of sleeping. */
export interface Signal<T = void> {
  readonly happened: Promise<T>;
  fire(value: T): void;
}

export function signal<T = void>(): Signal<T> {
  let fire!: (value: T) => void;
  const happened = new Promise<T>((resolve) => {
    fire = resolve;
  });
  return { happened, fire };
}
