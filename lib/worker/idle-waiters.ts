/** Those who wait until a worker has nothing to do. */
export class IdleWaiters {
  private waiting: (() => void)[] = [];
  /** Those who wait since before the exchange that is on its way: others want a later look. */
  private asked = 0;

  add(): Promise<void> {
    return new Promise((resolve) => {
      this.waiting.push(resolve);
    });
  }

  /** An exchange begins. */
  ask(): void {
    this.asked = this.waiting.length;
  }

  /** It found nothing, and nothing runs. */
  answer(): void {
    for (const resolve of this.waiting.splice(0, this.asked)) resolve();
    this.asked = 0;
  }
}
