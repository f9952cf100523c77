/**
 * Every command and option. Parsing, `--help` and the tables of docs/reference/cli.md are made from
 * this file.
 */
import { ConfigSchema } from '../../schemas/config.ts'
import { Preferences } from '../../schemas/prefer.ts'
import { listOf } from './terminal.ts'

export interface OptionItem {
  readonly short?: string
  /** Placeholder of the value: `<url>`. Without it, the option takes no value. */
  readonly value?: string
  readonly description: string
  /** Environment variable that is read when the option is missing. */
  readonly env?: string
  readonly default?: string
  readonly choices?: readonly string[]
}

interface CommandItem {
  readonly summary: string
  /** Operands after the options; '' when there are none. */
  readonly operands: string
  readonly options: Readonly<Record<string, OptionItem>>
  /** Paragraphs for `--help` and the documentation. */
  readonly notes: readonly string[]
}

const help: OptionItem = { short: 'h', description: 'Show this help' }

const { HTTP_HOST: host, HTTP_PORT: port } = ConfigSchema.properties

const run = {
  url: {
    value: '<url>',
    description: 'URL of the service',
    env: 'ONEFLIGHT_URL',
    default: `http://${String(host.default)}:${String(port.default)}`
  },
  token: {
    value: '<token>',
    description:
      'JWT to send. Other users of the machine can see it (ps): prefer the variable or a file',
    env: 'ONEFLIGHT_TOKEN'
  },
  'token-file': { value: '<file>', description: 'File that contains the JWT' },
  table: { description: 'Print tables, which is the default on a terminal' },
  json: {
    description:
      'Print the response body and a newline, which is the default for pipes and files'
  },
  'dry-run': { description: 'Run the batch, then roll it back' },
  'read-only': { description: 'Run a read-only transaction, which cannot write or lock rows' },
  isolation: {
    value: '<level>',
    description: 'Isolation level of the transaction',
    choices: Preferences.properties.isolation.anyOf.map(({ const: level }) => level)
  },
  explain: {
    description: 'Print the plan of each operation without running it. Requires EXPLAIN=on'
  },
  timing: { description: 'Print timings of the service to standard error' },
  'idempotency-key': {
    value: '<key>',
    description: 'Commit the batch exactly once, even if it is sent again with the same key'
  },
  'request-id': {
    value: '<id>',
    description: "Request id, repeated in the response and in the service's logs"
  },
  timeout: {
    value: '<seconds>',
    description: 'Maximum time to wait for the response',
    default: '60'
  },
  help
} as const satisfies Record<string, OptionItem>

const check = {
  batches: {
    value: '<folder>',
    description: 'Check all named batches of the folder, as the service does when it starts'
  },
  database: {
    description: 'Check names, types and privileges against the database of DATABASE_URL'
  },
  role: {
    value: '<role>',
    description: 'With --database: the role whose privileges and policies apply',
    env: 'ANON_ROLE'
  },
  help
} as const satisfies Record<string, OptionItem>

const types = {
  database: {
    description:
      'Write the types of the tables in DB_SCHEMAS of DATABASE_URL, and those of rows of named ' +
      'batches'
  },
  role: {
    value: '<role>',
    description: 'With --database: only the tables and columns that the role may use'
  },
  help
} as const satisfies Record<string, OptionItem>

const token = {
  role: { value: '<role>', description: 'Database role, in the role claim' },
  sub: { value: '<subject>', description: 'Subject: the claim `sub`' },
  claims: { value: '<json>', description: 'Other claims, as a JSON object' },
  'expires-in': {
    value: '<time>',
    description: 'Time until the token expires, in s, m, h or d',
    default: '1h'
  },
  help
} as const satisfies Record<string, OptionItem>

type Given<Items extends Readonly<Record<string, OptionItem>>> = {
  readonly [Name in keyof Items]?: Items[Name] extends { readonly value: string } ? string : boolean
}
export type RunOptions = Given<typeof run>
export type CheckOptions = Given<typeof check>
export type TypesOptions = Given<typeof types>
export type TokenOptions = Given<typeof token>

export type CommandName = 'start' | 'run' | 'check' | 'schema' | 'types' | 'token' | 'migrate'
export const commands: Readonly<Record<CommandName, CommandItem>> = {
  start: {
    summary: 'Start the service (the default command)',
    operands: '',
    options: { help },
    notes: [
      'The configuration is read from environment variables: DATABASE_URL, JWT_SECRET and so on. ' +
      'SIGTERM and SIGINT stop the service.'
    ]
  },
  run: {
    summary: 'Send a batch to a running service and print the response',
    operands: '<file|->',
    options: run,
    notes: [
      'The file is sent unchanged, or without what is around its operations: ' +
      '`{"$schema": "…", "operations": […]}`. `-` reads standard input. The response goes to ' +
      'standard output, everything else to standard error.',
      'Exit codes: 0, committed, or completed with an option that commits nothing. 1, rejected ' +
      'or failed, and nothing was committed. 2, invalid command line or file, and nothing was ' +
      'sent. 3, unknown whether the batch was committed.'
    ]
  },
  check: {
    summary: 'Validate batches without running them',
    operands: '<file|-> …',
    options: check,
    notes: [
      '`-` reads standard input. DB_SCHEMAS, MAX_BODY_BYTES, MAX_OPS and MAX_ROWS set the ' +
      'limits. Without --database, neither a service nor a database is needed, and tables and ' +
      'columns are not checked.',
      'With --batches, files are optional. Named batches cannot be checked against a database.',
      'With --database, PostgreSQL plans each operation under the role, in a read-only ' +
      'transaction that is rolled back. Nothing is executed. Values of insert and set are not ' +
      'checked: they are converted only when a batch runs, for example with run --dry-run.',
      'Exit codes: 0, valid. 1, invalid. 2, invalid command line, environment or file, or ' +
      'the database cannot be used.'
    ]
  },
  schema: {
    summary: 'Write the JSON Schema of batch files, for editors',
    operands: '',
    options: { help },
    notes: [
      'The schema describes files of batches and of named batches. Its limits are MAX_OPS and ' +
      'MAX_ROWS.',
      'Exit codes: 0, written. 2, invalid command line or environment.'
    ]
  },
  types: {
    summary: 'Write the TypeScript of a database and of a folder of named batches',
    operands: '[<folder>]',
    options: types,
    notes: [
      'Prints interfaces for the client: with --database one with the tables and views, and with ' +
      'a folder one with the parameters and results of each batch. The limits are read from the ' +
      'environment, as for check.',
      'Exit codes: 0, written. 1, a file is invalid, and its issues are printed to standard ' +
      'error. 2, invalid command line or environment, or the folder or the database cannot be ' +
      'read.'
    ]
  },
  token: {
    summary: 'Sign a token for development',
    operands: '',
    options: token,
    notes: [
      'Signs with JWT_SECRET (HS256). JWT_ROLE_CLAIM, JWT_ISS and JWT_AUD are read like the ' +
      'service reads them. The token goes to standard output, its claims to standard error.',
      'Exit codes: 0, signed. 2, invalid command line or environment, such as no JWT_SECRET.'
    ]
  },
  migrate: {
    summary: 'Create or upgrade the table of idempotency keys in the database',
    operands: '',
    options: { help },
    notes: [
      'Connects to MIGRATE_DATABASE_URL, or to DATABASE_URL when that is not set. Privileges are ' +
      'granted to the login role of DATABASE_URL. It is safe to run at any time and repeatedly.'
    ]
  }
}

export const globalOptions: Readonly<Record<string, OptionItem>> = {
  version: { description: 'Show the version' },
  help: { ...help, description: 'Show this help, or the help of a command' }
}

/** The option and its placeholder: `-h, --help`, `--url <url>`. */
export function writeOption (name: string, { short, value }: OptionItem): string {
  return `${short === undefined ? '' : `-${short}, `}--${name}${
    value === undefined ? '' : ` ${value}`
  }`
}

/** The description with choices, environment variable and default. */
export function describeOption (
  { description, choices, env, default: fallback }: OptionItem
): string {
  const facts = [
    ...choices === undefined ? [] : [listOf(choices)],
    ...env === undefined ? [] : [`env: ${env}`],
    ...fallback === undefined ? [] : [`default: ${fallback}`]
  ]
  return facts.length === 0 ? description : `${description} (${facts.join(', ')})`
}
