export interface ReceivedMail {
  /** Of the SMTP envelope. */
  readonly recipients: readonly string[];
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly text: string;
}

/** Reads what this application sends: one part of plain ASCII text. */
export function parseMail(recipients: readonly string[], raw: string): ReceivedMail {
  const end = raw.indexOf('\r\n\r\n');
  const head = end < 0 ? raw : raw.slice(0, end);
  const body = end < 0 ? '' : raw.slice(end + 4);
  return { recipients, headers: parseHeaders(head), text: body.replaceAll('\r\n', '\n') };
}

function parseHeaders(head: string): ReadonlyMap<string, string> {
  // A line that begins with a blank continues the one before (RFC 5322, section 2.2.3).
  const lines = head.replaceAll(/\r\n(?=[ \t])/g, '').split('\r\n');
  return new Map(
    lines.map((line) => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
    }),
  );
}
