/**
 * An HTTP answer that is no success. The queue looks at `status`: it does not try again after a 4xx,
 * except for the few that may pass (408, 425, 429).
 */
export class ResponseError extends Error {
  override readonly name = 'ResponseError';

  constructor(
    readonly status: number,
    service: string,
  ) {
    super(`${service} answered ${status}`);
  }
}

/** @throws ResponseError unless the status is 2xx. */
export async function expectSuccess(service: string, response: Response): Promise<void> {
  // Nobody reads the body, and an unread one keeps its connection.
  await response.body?.cancel();
  if (!response.ok) throw new ResponseError(response.status, service);
}
