/**
 * Parses the command line: the command, its options and its operands.
 */
import { parseArgs } from 'node:util'
import type { ConfigError, Environment } from '../config/config.ts'
import { commands, globalOptions, type CommandName, type OptionItem } from './commands.ts'
import { listOf } from './terminal.ts'

/** Invalid command line, environment or file. The message is one line. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** Reads settings from the environment. Throws a UsageError instead of a ConfigError. */
export function readSettings<T> (read: (env: Environment) => T, env: Environment): T {
  try {
    return read(env)
  } catch (error) {
    throw new UsageError((error as ConfigError).problems.join('; '))
  }
}

export interface Arguments {
  /** Undefined when only options are given. */
  readonly command: CommandName | undefined
  readonly options: Readonly<Record<string, string | boolean | undefined>>
  readonly operands: readonly string[]
}

/** Reads the arguments after the name of the program. Throws a UsageError. */
export function readArguments (argv: readonly string[]): Arguments {
  const [first, ...rest] = argv
  if (first === undefined || first.startsWith('-')) {
    return { command: undefined, ...parse(argv, globalOptions) }
  }
  if (!isCommand(first)) {
    throw new UsageError(`unknown command "${first}" (expected ${listOf(Object.keys(commands))})`)
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
    Object.entries(items).map(([name, { value, short }]) => {
      const type = value === undefined ? 'boolean' as const : 'string' as const
      return [name, { type, ...short === undefined ? {} : { short } }]
    })
  )
  try {
    const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true })
    checkChoices(values, items)
    return { options: values, operands: positionals }
  } catch (error) {
    // Keep only the first sentence of Node's message: the rest is about names that begin with -.
    throw error instanceof UsageError
      ? error
      : new UsageError((error as Error).message.split(/\. |\.?\n/, 1)[0] as string)
  }
}

function checkChoices (
  values: Arguments['options'],
  items: Readonly<Record<string, OptionItem>>
): void {
  for (const [name, { choices }] of Object.entries(items)) {
    const value = values[name]
    if (choices !== undefined && typeof value === 'string' && !choices.includes(value)) {
      throw new UsageError(`invalid --${name} "${value}" (expected ${listOf(choices)})`)
    }
  }
}
