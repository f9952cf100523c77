/**
 * The words of the command line: every command and option with what is said of it. Parsing,
 * `--help` and the tables of docs/reference/cli.md are all made from this one object.
 */
import { ConfigSchema } from '../../schemas/config.ts'
import { Preferences } from '../../schemas/prefer.ts'

export interface OptionItem {
  readonly type: 'string' | 'boolean'
  readonly short?: string
  /** What stands for the value: `<url>`. */
  readonly value?: string
  readonly description: string
  /** The variable that says it where the option does not. */
  readonly env?: string
  /** What counts where nobody says anything. */
  readonly otherwise?: string
  /** All that the value can be. */
  readonly choices?: readonly string[]
}

export interface CommandItem {
  readonly summary: string
  /** What stands behind the options; '' where nothing may. */
  readonly operands: string
  readonly options: Readonly<Record<string, OptionItem>>
  /** Lines for `--help` and the documentation. */
  readonly notes: readonly string[]
}

const help: OptionItem = { type: 'boolean', short: 'h', description: 'shows this' }

const { HTTP_HOST: host, HTTP_PORT: port } = ConfigSchema.properties

const run = {
  url: {
    type: 'string',
    value: '<url>',
    description: 'where the service listens',
    env: 'ONEFLIGHT_URL',
    otherwise: `http://${String(host.default)}:${String(port.default)}`
  },
  token: {
    type: 'string',
    value: '<token>',
    description:
      'the JWT to send; on the command line every user of the machine can read it (ps), so ' +
      'prefer the variable or a file',
    env: 'ONEFLIGHT_TOKEN'
  },
  'token-file': { type: 'string', value: '<file>', description: 'a file that holds the JWT' },
  table: { type: 'boolean', description: 'prints tables; what a terminal gets anyway' },
  json: {
    type: 'boolean',
    description: 'prints the body of the answer byte for byte; what a pipe or a file gets anyway'
  },
  'dry-run': { type: 'boolean', description: 'runs everything and commits nothing' },
  'read-only': { type: 'boolean', description: 'refuses whatever would write or lock rows' },
  isolation: {
    type: 'string',
    value: '<level>',
    description: 'isolation level of the transaction',
    choices: Preferences.properties.isolation.anyOf.map(({ const: level }) => level)
  },
  explain: {
    type: 'boolean',
    description: 'prints the plan of each operation and runs none (the service needs EXPLAIN=on)'
  },
  timing: { type: 'boolean', description: 'tells on standard error where the time went' },
  'idempotency-key': {
    type: 'string',
    value: '<key>',
    description: 'applies the batch exactly once, however often it is sent with this key'
  },
  'request-id': {
    type: 'string',
    value: '<id>',
    description: 'the id that answer and log lines of the service repeat'
  },
  timeout: {
    type: 'string',
    value: '<seconds>',
    description: 'longest wait for the answer',
    otherwise: '60'
  },
  help
} as const satisfies Record<string, OptionItem>

/** The options of `oneflight run`, as far as they are given. */
export type RunOptions = {
  readonly [Name in keyof typeof run]?: typeof run[Name]['type'] extends 'string' ? string : boolean
}

const FILE = '`-` is standard input.'

export const commands: Readonly<Record<'start' | 'run' | 'check' | 'migrate', CommandItem>> = {
  start: {
    summary: 'starts the service; what `oneflight` without a command does',
    operands: '',
    options: { help },
    notes: [
      'Everything is configured by the environment: DATABASE_URL, JWT_SECRET and so on. It ' +
      'ends by SIGTERM or SIGINT.'
    ]
  },
  run: {
    summary: 'sends a batch to a running service and prints its answer',
    operands: '<file|->',
    options: run,
    notes: [
      `The file is sent as it is. ${FILE} The answer goes to standard output, everything ` +
      'else to standard error.',
      'Exit code: 0 committed (or done, where nothing is to be committed); 1 refused or ' +
      'failed, nothing is committed; 2 the command line or a file is at fault, nothing was ' +
      'sent; 3 unknown whether it is committed.'
    ]
  },
  check: {
    summary: 'validates batches without a service and without a database, as the service would',
    operands: '<file|-> …',
    options: { help },
    notes: [
      `${FILE} Limits are those of the environment: DB_SCHEMAS, MAX_BODY_BYTES, MAX_OPS, ` +
      'MAX_ROWS, MAX_CONDITIONS. Whether tables and columns exist is known to the database ' +
      'alone.',
      'Exit code: 0 no fault; 1 faults; 2 the command line, the environment or a file is at fault.'
    ]
  },
  migrate: {
    summary: 'makes in the database what the service keeps there: the table of idempotency keys',
    operands: '',
    options: { help },
    notes: [
      'For the login role of DATABASE_URL; connects by MIGRATE_DATABASE_URL where that is ' +
      'set. It can be run at any time and as often as you like.'
    ]
  }
}

export type CommandName = keyof typeof commands

/** What stands in the place of a command. */
export const globalOptions: Readonly<Record<string, OptionItem>> = {
  version: { type: 'boolean', description: 'prints the version' },
  help: { ...help, description: 'shows this; behind a command what is said of it' }
}

/** An option as it is written: `-h, --help`, `--url <url>`. */
export function writeOption (name: string, { short, value }: OptionItem): string {
  return `${short === undefined ? '' : `-${short}, `}--${name}${
    value === undefined ? '' : ` ${value}`
  }`
}

/** What an option means, with its choices, its variable and its default. */
export function describeOption ({ description, choices, env, otherwise }: OptionItem): string {
  const more = [
    ...choices === undefined ? [] : [`one of ${choices.join(', ')}`],
    ...env === undefined ? [] : [`else ${env}`],
    ...otherwise === undefined ? [] : [`else ${otherwise}`]
  ]
  return more.length === 0 ? description : `${description} (${more.join(', ')})`
}
