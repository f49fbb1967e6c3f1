/**
 * All SQL of this package is written for the schema `pgqueue`, so that it can be read, searched and pasted
 * into psql as it stands. This puts another schema in its place: `pgqueue.name` becomes the quoted schema
 * and the name, and `'pgqueue.name'` (a regclass literal) the same inside a quoted literal.
 */
export function forSchema(sql: string, schema: string): string {
  const quoted = quoteIdentifier(schema);
  // A schema may be called anything, even like the tag that ends a function's body.
  let tag = '$fn$';
  for (let n = 1; schema.includes(tag); n += 1) tag = `$fn${n}$`;
  return sql.replaceAll(PLACES, (place, name: string | undefined) => {
    if (place.startsWith('--')) return place;
    if (name !== undefined) return quoteLiteral(`${quoted}.${name}`);
    return place === '$fn$' ? tag : quoted;
  });
}

/**
 * In one pass, so that nothing inside a schema's name is taken for a place. Comments are places that stay:
 * a schema whose name has a line break would end them.
 */
const PLACES = /--.*|'pgqueue\.(\w+)'|\bpgqueue(?=[.;])|\$fn\$/g;

/** An identifier as SQL text. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** A string as SQL text, whatever `standard_conforming_strings` says. */
export function quoteLiteral(text: string): string {
  const quoted = `'${text.replaceAll("'", "''")}'`;
  return text.includes('\\') ? ` E${quoted.replaceAll('\\', '\\\\')}` : quoted;
}
