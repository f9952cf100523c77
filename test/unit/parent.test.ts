/** Tests that a signal which npm passes on does not count as a second one. */
import t from 'tap'

process.env['npm_lifecycle_event'] = 'start'
const { onSignals } = await import('../../src/parent.ts')

t.test('the copy of a signal does not count, another signal does', async t => {
  const seen: string[] = []
  onSignals(
    ['SIGUSR1', 'SIGUSR2'],
    signal => seen.push(`stop ${signal}`),
    signal => seen.push(`force ${signal}`)
  )
  process.emit('SIGUSR2', 'SIGUSR2')
  process.emit('SIGUSR2', 'SIGUSR2')
  t.same(seen, ['stop SIGUSR2'])
  process.emit('SIGUSR1', 'SIGUSR1')
  t.same(seen, ['stop SIGUSR2', 'force SIGUSR1'])
})
