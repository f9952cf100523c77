/** Tests the test runner's report of a file: failures, and skipped tests with their reasons. */
import t from 'tap'
import { createFileReport, type FileReport } from '../../support/runner/file-report.ts'

function read (file: string, output: string): FileReport {
  const report = createFileReport(file)
  for (const line of output.trim().split('\n')) report.add(line)
  return report
}

t.test('each skipped or pending test is listed with its reason', async t => {
  const report = read(
    'test/a.test.ts',
    String.raw`
TAP version 14
# Subtest: passes
    ok 1 - should be equal
    1..1
ok 1 - passes # time=9.017ms

ok 2 - needs \# a program # SKIP no program: a (b) \# c\\d
ok 3 - no reason # SKIP
# Subtest: outer
    ok 1 - inner # SKIP inner reason
    ok 2 - is true
    ok 3 - pending # TODO write it
    1..3
ok 4 - outer # time=16.23ms

ok 5 - repeats it (skipped: nothing there) # SKIP nothing there
ok 6 - left out by the caller # SKIP filter: /outer/
1..6
# { total: 8, pass: 3, todo: 1, skip: 5 }
# time=56.931ms
`
  )
  t.same(report.omissions(), [
    'skipped: test/a.test.ts > needs # a program: no program: a (b) # c\\d',
    'skipped: test/a.test.ts > no reason: no reason given',
    'skipped: test/a.test.ts > outer > inner: inner reason',
    'to do: test/a.test.ts > outer > pending: write it',
    'skipped: test/a.test.ts > repeats it: nothing there'
  ])
})

t.test('a skipped file is listed with its reason', async t => {
  t.same(read('test/b.test.ts', 'TAP version 14\n1..0 # not here\n# time=12.1ms').omissions(), [
    'skipped: test/b.test.ts: not here'
  ])
})

t.test('failures are shown without passed assertions, plans and timings', async t => {
  const report = read(
    'test/c.test.ts',
    `
TAP version 14
# Subtest: fails
    ok 1 - skipped all the same # SKIP another reason
    not ok 2 - should be equal
      ---
      compare: ===
      ...
    1..2
not ok 1 - fails # time=70.279ms
1..1
# { total: 2, pass: 0, fail: 1, skip: 1 }
# time=108.516ms
`
  )
  t.equal(report.failures(), [
    '# Subtest: fails',
    '    not ok 2 - should be equal',
    '      ---',
    '      compare: ===',
    '      ...',
    'not ok 1 - fails # time=70.279ms'
  ].join('\n'))
  t.same(report.omissions(), [
    'skipped: test/c.test.ts > fails > skipped all the same: another reason'
  ])
})
