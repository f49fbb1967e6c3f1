/** What PostgreSQL can't store: NUL, and halves of surrogate pairs. */
export function isStorableText(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed();
}

/** The same for JSON text, where JSON.stringify has escaped both. */
export function isStorableJson(json: string): boolean {
  return !/(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])/i.test(json);
}

/** The text with what can't be stored replaced by U+FFFD, cut to `maxLength` characters on a code point. */
export function storableText(text: string, maxLength: number): string {
  const cut =
    text.length > maxLength
      ? `${text.slice(0, maxLength - 1).replace(/[\uD800-\uDBFF]$/, '')}…`
      : text;
  return cut.replaceAll('\0', '\uFFFD').toWellFormed();
}
