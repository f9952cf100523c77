/**
 * A shell between this process and a PostgreSQL server that stops the server when this process
 * ends, even by SIGKILL: the kernel then closes the pipe to the shell. The server runs outside of
 * the terminal's process group, so that Ctrl-C reaches only this process. No signal or exit
 * handlers are installed in this process.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import type { Socket } from 'node:net'
import { as, type Account } from './account.ts'

/**
 * $1 is the directory to remove with the server, $2 a second one or ''; the rest is the server's
 * command. The guard ignores TERM after the pipe has closed, because the main shell sends TERM when
 * the server has stopped.
 */
const script = `
exec 3<&0 </dev/null
first=$1; second=$2; shift 2
"$@" 3<&- &
server=$!
(
  read -r _ <&3
  trap '' TERM
  kill -QUIT $server
  tenths=0
  while kill -0 $server; do
    sleep 0.1
    tenths=$((tenths + 1))
    if [ $tenths -eq 80 ]; then kill -KILL $server; fi
  done
  rm -rf "$first"
  if [ -n "$second" ]; then rm -rf "$second"; fi
) 2>/dev/null &
guard=$!
wait $server
status=$?
kill $guard
exit $status
`

export interface Guarded {
  /** Settles when the server has stopped; never rejects. */
  readonly ended: Promise<void>
  hasEnded(): boolean
  /** Stops the server by SIGQUIT, and by SIGKILL after 8 s. */
  abort(): void
  /** Makes the server keep this process alive from now on. */
  hold(): void
}

export interface GuardOptions {
  readonly account: Account | undefined
  readonly log: number
  /** Directories to delete if this process ends before the server; the second may be ''. */
  readonly remove: readonly [string, string]
}

export function startGuarded (
  command: readonly string[],
  { account, log, remove }: GuardOptions
): Guarded {
  const shell: ChildProcess = spawn('/bin/sh', ['-c', script, 'sh', ...remove, ...command], {
    ...as(account),
    detached: true,
    stdio: ['pipe', log, log]
  })
  const pipe = shell.stdin as Socket
  let exited = false
  const ended = new Promise<void>(resolve => {
    const end = () => {
      exited = true
      resolve()
    }
    shell.once('exit', end)
    // No /bin/sh, or no permission to change the user: the log stays empty and the start fails.
    shell.once('error', end)
  })
  shell.unref()
  pipe.unref()
  return {
    ended,
    hasEnded: () => exited,
    abort: () => {
      pipe.destroy()
    },
    hold: () => {
      shell.ref()
    }
  }
}
