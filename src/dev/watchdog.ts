/**
 * A shell between this process and a PostgreSQL server, so that no server outlives the process that
 * wanted it.
 *
 * In charge of: starting the server outside the terminal's process group (Ctrl-C is for us to
 * handle), and ending it when the pipe to us closes, which the kernel does whatever we died of,
 * SIGKILL included. Refuses to: install signal or exit handlers in this process.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import type { Socket } from 'node:net'
import { as, type Account } from './account.ts'

/**
 * $1 is the directory to remove with the server, $2 another one or ''; the rest is the server's
 * command. The guard first ignores TERM, because the main shell ends it with TERM once the server
 * is gone.
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
  /** Settles when the server has ended; never rejects. */
  readonly ended: Promise<void>
  /** Whether it has ended. */
  hasEnded(): boolean
  /** Makes the guard end the server without mercy (SIGQUIT, after 8 s SIGKILL). */
  abort(): void
  /** From here on the server keeps this process alive (it does not before). */
  hold(): void
}

/**
 * Starts `command` as `account`, its output going to the file descriptor `log`; `remove` are
 * directories to delete if we die.
 */
export function startGuarded (
  command: readonly string[],
  account: Account | undefined,
  log: number,
  remove: readonly [string, string]
): Guarded {
  const shell: ChildProcess = spawn('/bin/sh', ['-c', script, 'sh', ...remove, ...command], {
    ...as(account),
    detached: true,
    stdio: ['pipe', log, log]
  })
  const pipe = shell.stdin as Socket
  let over = false
  const ended = new Promise<void>(resolve => {
    const end = () => {
      over = true
      resolve()
    }
    shell.once('exit', end)
    // no /bin/sh, or no right to change the user: the log stays empty and the start fails
    shell.once('error', end)
  })
  shell.unref()
  pipe.unref()
  return {
    ended,
    hasEnded: () => over,
    abort: () => {
      pipe.destroy()
    },
    hold: () => {
      shell.ref()
    }
  }
}
