/**
 * `npm run conditions`: generates src/errors/conditions.ts from PostgreSQL's list of error codes
 * (errcodes.txt of the embedded server). Run it for each new major version of PostgreSQL.
 */
import { readFileSync, writeFileSync } from 'node:fs'

const source = new URL(
  `../node_modules/postgres-18-${process.platform}-${process.arch}/` +
    'native/share/postgresql/errcodes.txt',
  import.meta.url
)
const target = new URL('../src/errors/conditions.ts', import.meta.url)

const names = new Map<string, string>()
for (const line of readFileSync(source, 'utf8').split('\n')) {
  const found = /^([0-9A-Z]{5})\s+[ESW]\s+\S+\s+(\S+)$/.exec(line)
  // PL/pgSQL uses the first name of a code; further names are synonyms.
  if (found?.[1] !== undefined && found[2] !== undefined && !names.has(found[1])) {
    names.set(found[1], found[2])
  }
}

writeFileSync(
  target,
  `/**
 * PostgreSQL's condition names by SQLSTATE. Generated from errcodes.txt of PostgreSQL 18 by \`npm
 * run conditions\`; not edited by hand. Source:
 * https://www.postgresql.org/docs/18/errcodes-appendix.html
 */
const names = [
${[...names].map(([code, name]) => `  ['${code}', '${name}']`).join(',\n')}
] as const

export type ConditionName = typeof names[number][1]

export const conditions: ReadonlyMap<string, string> = new Map(names)
`
)
