/**
 * The command line as the program it is: a process of its own, with its own environment.
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
  /** Beside what Node itself needs. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** What it reads on standard input. */
  readonly input?: string | Buffer
  /** Nobody reads what it prints. */
  readonly deaf?: boolean
}

/** Runs `oneflight` with these arguments, in the root of the project. */
export async function oneflight (
  args: readonly string[],
  { env = {}, input = '', deaf = false }: RunOptions = {}
): Promise<Ended> {
  const child = spawn(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', program, ...args],
    {
      cwd: join(import.meta.dirname, '../../..'),
      env: childEnvironment(env),
      stdio: ['pipe', 'pipe', 'pipe']
    }
  )
  // It need not read.
  child.stdin.on('error', () => {}).end(input)
  const ended = new Promise<number | null>(resolve => child.once('close', resolve))
  if (deaf) child.stdout.destroy()
  const [out, err] = await Promise.all([deaf ? '' : text(child.stdout), text(child.stderr)])
  return { code: await ended, out, err }
}

/**
 * The same in the process of the test, for rows of many: to load the program takes longer than to
 * run it.
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
