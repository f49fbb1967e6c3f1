// @ts-check

/** Ends what global-setup.mjs started, in the same process. */
export default async function teardown() {
  const { stopPostgres } = /** @type {{ stopPostgres?: () => Promise<void> }} */ (
    /** @type {unknown} */ (globalThis)
  );
  await stopPostgres?.();
}
