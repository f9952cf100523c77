/**
 * Runs the command line as a child process with its own environment.
 */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { runCommand } from '../../../src/cli/main.ts'
import { childEnvironment } from './process.ts'

export const program = join(import.meta.dirname, '../../../src/cli.ts')

export interface Ended {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

export interface RunOptions {
  /** Environment variables, in addition to those that Node needs. */
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly input?: string | Buffer
  /** Closes standard output, as if its reader had exited. */
  readonly deaf?: boolean
}

/** Runs `oneflight` with these arguments, in the root of the project. */
export const oneflight = (args: readonly string[], options?: RunOptions): Promise<Ended> =>
  runEntry(program, args, options)

/** The same for another entry point. */
export async function runEntry (
  entry: string,
  args: readonly string[],
  { env = {}, input = '', deaf = false }: RunOptions = {}
): Promise<Ended> {
  const child = spawn(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', entry, ...args],
    {
      cwd: join(import.meta.dirname, '../../..'),
      env: childEnvironment(env),
      stdio: ['pipe', 'pipe', 'pipe']
    }
  )
  // The program may exit without reading its input.
  child.stdin.on('error', () => {}).end(input)
  const ended = new Promise<number | null>(resolve => child.once('close', resolve))
  if (deaf) child.stdout.destroy()
  const [out, err] = await Promise.all([deaf ? '' : text(child.stdout), text(child.stderr)])
  return { code: await ended, out, err }
}

/**
 * The same within the process of the test, for tables of many cases. Loading the program takes
 * longer than running it.
 */
export async function runInside (
  args: readonly string[],
  { env = {}, input = '' }: Pick<RunOptions, 'env' | 'input'> = {}
): Promise<Ended> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()]
  const code = await runCommand(args, '1.0.0', {
    env,
    stdin: Readable.from([Buffer.from(input)]),
    stdout,
    stderr
  })
  const [out, err] = await Promise.all([text(stdout.end()), text(stderr.end())])
  return { code, out, err }
}
