/**
 * What `npm run dev` prints when the servers listen: addresses, and commands to paste.
 */
import type { Database } from './database.ts'

export interface StartFacts {
  readonly url: string
  readonly adminUrl: string
  readonly dataDir: string
  readonly database: Database
  readonly secretFile: string
  /** Token of the shop; undefined for a database that is created from the user's own file. */
  readonly token?: string
  readonly file?: string
}

/** URL that the command line uses by default. */
const DEFAULT_URL = 'http://127.0.0.1:4000'

export function describeStart (facts: StartFacts): string {
  const { url, adminUrl, dataDir, database, token, file = '' } = facts
  const fresh = `npm run dev -- --reset ${file}`.trimEnd()
  return `
main server    ${url}
admin server   ${adminUrl}   /metrics /live /ready /config
API reference  ${adminUrl}/reference   send batches from the browser
database       ${database.url}
data           ${dataDir}

${token === undefined ? describeTokens(facts) : describeShop(url, token)}${
    token === undefined ? describeGrants(facts) : ''
  }
${
    database.outdated
      ? `The SQL file has changed since this database was created. To create it again: ${fresh}`
      : `To start again with a fresh database: ${fresh}`
  }
Press Ctrl-C to stop.`
}

function describeShop (url: string, token: string): string {
  return `Set a token (role shop_customer, valid for 30 days):

${exportsFor(url, token)}

Then send a batch:

curl ${url} -H "Authorization: Bearer $ONEFLIGHT_TOKEN" \\
  -H 'Content-Type: application/json' -d '[
  {"id": "order", "op": "select", "table": "orders", "where": {"status": {"eq": "paid"}}},
  {"id": "stock", "op": "select", "table": "stock", "where": {"qty": {"gte": 100}}}
]'

Or use the command line, which prints tables:

echo '[{"id": "stock", "op": "select", "table": "stock"}]' | npm run -s oneflight -- run -

More batches: docs/guides/getting-started.md and examples/README.md
Named batches, for example POST /batches/order: deploy/batches
`
}

function describeTokens ({ url, secretFile, database: { roles } }: StartFacts): string {
  const [role] = roles
  if (role === undefined) {
    return 'No role that can use this database is granted to oneflight, so batches are refused.\n'
  }
  return `Set a token. Roles of this database: ${roles.join(', ')}

export JWT_SECRET=$(cat ${secretFile})
${exportsFor(url, `$(npm run -s oneflight -- token --role ${role} --sub alice)`)}
`
}

const MAX_TABLES = 5

/**
 * Names the tables that no batch can use. They may be so on purpose, so the example grants only
 * reading, of one table, and it chooses no role if there are several.
 */
function describeGrants ({ file, database: { roles, ungranted } }: StartFacts): string {
  if (ungranted.length === 0) return ''
  const [role = 'app_user', ...others] = roles
  const tables = ungranted.slice(0, MAX_TABLES)
  const more = ungranted.length - tables.length
  const create = roles.length === 0
    ? `create role ${role} nologin;\ngrant ${role} to oneflight;\n`
    : ''
  return `
No role of a token may use ${tables.join(', ')}${more === 0 ? '' : ` and ${more} more`}.
If batches need one of them, grant what they do in ${file}, for example to read:

${create}grant select on ${tables[0]} to ${others.length === 0 ? role : '<role>'};

Then start again with --reset. docs/guides/row-level-security.md limits a role to some of the rows.
`
}

/** Variables of the command line. It needs the URL when HTTP_PORT is set. */
function exportsFor (url: string, token: string): string {
  const variables = `export ONEFLIGHT_TOKEN=${token}`
  return url === DEFAULT_URL ? variables : `${variables}\nexport ONEFLIGHT_URL=${url}`
}
