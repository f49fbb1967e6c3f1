import { forSchema, quoteIdentifier, quoteLiteral } from '../../lib/store/sql.js';

test('an identifier is quoted, with its quotes doubled', () => {
  expect(quoteIdentifier('jobs')).toBe('"jobs"');
  expect(quoteIdentifier('My "jobs"; drop table x --')).toBe('"My ""jobs""; drop table x --"');
});

test('a literal is quoted, with its quotes doubled and its backslashes safe under any setting', () => {
  expect(quoteLiteral("it's")).toBe("'it''s'");
  expect(quoteLiteral(String.raw`a\'b`)).toBe(String.raw` E'a\\''b'`);
});

describe('SQL for another schema', () => {
  test('names the schema in every place where the text says pgqueue', () => {
    expect(forSchema('select pgqueue.retry(id) from pgqueue.jobs', 'My Jobs')).toBe(
      'select "My Jobs".retry(id) from "My Jobs".jobs',
    );
    expect(forSchema('create schema if not exists pgqueue;', 'x')).toBe(
      'create schema if not exists "x";',
    );
  });

  test('quotes a name inside a literal twice: as an identifier, then as text', () => {
    expect(forSchema("'pgqueue.jobs'::regclass", `a'b"c`)).toBe(`'"a''b""c".jobs'::regclass`);
    expect(forSchema("nextval('pgqueue.jobs_id_seq')", String.raw`a\b`)).toBe(
      String.raw`nextval( E'"a\\b".jobs_id_seq')`,
    );
  });

  test('leaves other words alone that contain the name', () => {
    const text = "select 'pgqueue_' || my_pgqueue.jobs, pgqueues.x, 'nestjs-pg-queue'";
    expect(forSchema(text, 'x')).toBe(text);
  });

  test('takes nothing inside the name of a schema for a place or a pattern', () => {
    for (const schema of ['pgqueue.pgqueue.jobs', '$&$1$$', "'pgqueue.x'"]) {
      expect(forSchema('pgqueue.jobs, pgqueue.workers', schema)).toBe(
        `${quoteIdentifier(schema)}.jobs, ${quoteIdentifier(schema)}.workers`,
      );
    }
  });

  test('can not end the body of a function by its name', () => {
    for (const schema of ['a$fn$b', '$fn$ $fn1$']) {
      const text = forSchema('as $fn$ select 1 from pgqueue.jobs $fn$', schema);
      const [, tag = ''] = /^as (\$\w+\$) select 1 from /.exec(text) ?? [];
      expect(schema).not.toContain(tag);
      expect(text).toBe(`as ${tag} select 1 from "${schema}".jobs ${tag}`);
    }
  });

  test('can not end a comment by a line break in its name', () => {
    const text = '-- see pgqueue.jobs\nselect 1';
    expect(forSchema(text, 'a\nb')).toBe(text);
  });
});
