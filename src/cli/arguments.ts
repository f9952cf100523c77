/**
 * The command line, read: which command, with which options. Refuses what nobody defined, in one
 * line.
 */
import { parseArgs } from 'node:util'
import { commands, globalOptions, type CommandName, type OptionItem } from './commands.ts'

/** The command line, the environment or a file is at fault; the message is one line. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

export interface Arguments {
  /** undefined: options alone. */
  readonly command: CommandName | undefined
  readonly options: Readonly<Record<string, string | boolean | undefined>>
  readonly operands: readonly string[]
}

/** Reads the arguments behind the name of the program. Throws a UsageError. */
export function readArguments (argv: readonly string[]): Arguments {
  const [first, ...rest] = argv
  if (first === undefined || first.startsWith('-')) {
    return { command: undefined, ...parse(argv, globalOptions) }
  }
  if (!isCommand(first)) {
    throw new UsageError(`there is no command "${first}", but ${Object.keys(commands).join(', ')}`)
  }
  return { command: first, ...parse(rest, commands[first].options) }
}

function isCommand (word: string): word is CommandName {
  return Object.hasOwn(commands, word)
}

function parse (
  args: readonly string[],
  items: Readonly<Record<string, OptionItem>>
): Pick<Arguments, 'options' | 'operands'> {
  const options = Object.fromEntries(
    Object.entries(items).map((
      [name, { type, short }]
    ) => [name, { type, ...short === undefined ? {} : { short } }])
  )
  try {
    const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true })
    checkChoices(values, items)
    return { options: values, operands: positionals }
  } catch (error) {
    // Of Node's message the first sentence: the rest is advice for names that begin with a dash.
    throw error instanceof UsageError
      ? error
      : new UsageError((error as Error).message.replace(/(?:\. |\.?\n)[^]*$/, ''))
  }
}

function checkChoices (
  values: Arguments['options'],
  items: Readonly<Record<string, OptionItem>>
): void {
  for (const [name, { choices }] of Object.entries(items)) {
    const value = values[name]
    if (choices !== undefined && typeof value === 'string' && !choices.includes(value)) {
      throw new UsageError(`--${name} takes one of ${choices.join(', ')}, not "${value}"`)
    }
  }
}
