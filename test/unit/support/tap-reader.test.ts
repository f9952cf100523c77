/** What `npm test` shows of a run: which tests were not run, and why. */
import t from 'tap'
import { tapReader } from '../../support/runner/tap-reader.ts'

/** As `tap --reporter=tap` writes it. */
const run = String.raw`
TAP version 14
1..4
# Subtest: test/a.test.ts
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
    # time=56.931ms
ok 1 - test/a.test.ts # time=56.931ms

# Subtest: test/b.test.ts
    1..0 # not here
    # time=12.176ms
ok 2 - test/b.test.ts # SKIP not here

# Subtest: test/c.test.ts
    # Subtest: fails
        ok 1 - skipped all the same # SKIP another reason
        not ok 2 - should be equal
          ---
          compare: ===
          ...
        1..2
    not ok 1 - fails # time=70.279ms
    1..1
not ok 3 - test/c.test.ts # time=108.516ms
  ---
  exitCode: 1
  ...

# No coverage generated
# { total: 12, pass: 3, fail: 1, todo: 1, skip: 7 }
# time=4781.66ms
`.trim().split('\n')

t.test('each test that was skipped or is to do is named with its reason', async t => {
  const reader = tapReader()
  for (const line of run) reader.take(line)
  t.same(reader.omissions(), [
    'skipped: test/a.test.ts > needs # a program: no program: a (b) # c\\d',
    'skipped: test/a.test.ts > no reason: no reason given',
    'skipped: test/a.test.ts > outer > inner: inner reason',
    'to do: test/a.test.ts > outer > pending: write it',
    'skipped: test/a.test.ts > repeats it: nothing there',
    'skipped: test/b.test.ts: not here',
    'skipped: test/c.test.ts > fails > skipped all the same: another reason'
  ])
  t.same(reader.counts(), { passed: 3, failed: 1, left: 8 })
})

t.test('a passed file is one line, of another the failures are shown', async t => {
  const reader = tapReader()
  const shown = run.map(line => reader.take(line)).filter(text => text !== undefined)
  t.same(shown, [
    'ok 1 - test/a.test.ts # time=56.931ms',
    'ok 2 - test/b.test.ts # SKIP not here',
    [
      '# Subtest: test/c.test.ts',
      '    # Subtest: fails',
      '        not ok 2 - should be equal',
      '          ---',
      '          compare: ===',
      '          ...',
      '    not ok 1 - fails # time=70.279ms',
      'not ok 3 - test/c.test.ts # time=108.516ms'
    ].join('\n'),
    '  exitCode: 1',
    '# No coverage generated'
  ])
})
