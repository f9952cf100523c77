/** Tests DATABASE_ROUTES: which database a value has, and that problems contain no secrets. */
import t from 'tap'
import { parseDatabaseRoutes } from '../../../src/config/database-url.ts'

const url = (host: string, more = ''): string => `postgres://app:hunter2@${host}/shop${more}`
const shown = (text: string): object => {
  const { all, values, buckets } = parseDatabaseRoutes(text)
  return {
    all: all.map(({ name }) => name),
    values: Object.fromEntries(Array.from(values, ([value, { name }]) => [value, name])),
    buckets: buckets.map(({ name }) => name)
  }
}

t.test('values have the database of their entry', async t => {
  t.strictSame(shown(`acme=${url('a')}, globex = ${url('b:6432')} ,\n*=${url('a')}`), {
    all: ['a:5432/shop', 'b:6432/shop'],
    values: { acme: 'a:5432/shop', globex: 'b:6432/shop' },
    buckets: ['a:5432/shop']
  })
  t.strictSame(shown(`a%2Cb%3D=${url('a')},%2A=${url('a')},h%25=${url('a')}`), {
    all: ['a:5432/shop'],
    values: { 'a,b=': 'a:5432/shop', '*': 'a:5432/shop', 'h%': 'a:5432/shop' },
    buckets: []
  })
  t.strictSame(
    parseDatabaseRoutes(`acme=${url('a')},globex=${url('a')}`).values.get('globex'),
    parseDatabaseRoutes(`acme=${url('a')}`).all[0],
    'the same URL is the same database'
  )
})

t.test('URLs keep every part that libpq knows', async t => {
  const [{ name, target }] = parseDatabaseRoutes(
    'acme=postgres://app:p%2Cw%7C%3D@/shop?host=a%2Cb&port=1%2C2&target_session_attrs=primary'
  ).all
  t.equal(name, 'a:1,b:2/shop')
  t.match(target, {
    hosts: [{ host: 'a', port: 1 }, { host: 'b', port: 2 }],
    password: 'p,w|=',
    targetSessionAttrs: 'primary'
  })
})

t.test('a list of URLs repeats over the buckets', async t => {
  const [a, b, c] = ['a:5432/shop', 'b:5432/shop', 'c:5432/shop']
  t.match(shown(`hash(4)=${url('a')}|${url('b')}`), { all: [a, b], buckets: [a, b, a, b] })
  t.match(
    shown(`hash(4)=${[url('a'), url('b'), url('c'), url('b')].join(' | ')}`),
    { all: [a, b, c], buckets: [a, b, c, b] },
    'a bucket moves when all are listed'
  )
  t.match(shown(`acme=${url('c')},hash(1)=${url('a')}`), { values: { acme: c }, buckets: [a] })
})

t.test('problems name the entry and show no part of it', async t => {
  const list = 'expected value=url; write a comma inside a URL as %2C'
  const only = 'only one entry may be * or hash(…)'
  const buckets = 'hash(…), in lower case, takes a number of buckets from 1 to 1024'
  const rows: ReadonlyArray<readonly [text: string, problem: string]> = [
    [url('a'), `entry 1: ${list}`],
    ['hunter2', `entry 1: ${list}`],
    [`=${url('a')}`, `entry 1: ${list}`],
    [` =${url('a')}`, `entry 1: ${list}`],
    [`acme=${url('a')},`, `entry 2: ${list}`],
    [`acme=${url('a,hunter2')}`, `entry 2: ${list}`],
    [`acme=${url('a')},globex=`, 'entry 2: expected postgres://user:password@host:port/database'],
    [`acme=${url('a', '?hunter2=1')}`, 'entry 1: has an unknown parameter'],
    [`hunter2%ff=${url('a')}`, 'entry 1: has an invalid percent-encoding in its value'],
    [`hunter2=${url('a')},hunter2=${url('b')}`, 'entry 2: has the value of an earlier entry'],
    [
      `acme=${url('a')}|${url('b')}`,
      'entry 1: expected one URL; write "|" inside a URL as %7C'
    ],
    [`*=${url('a')},hash(2)=${url('b')}`, `entry 2: ${only}`],
    [`*=${url('a')},*=${url('a')}`, `entry 2: ${only}`],
    ...['()', '(0)', '(1025)', '(1.5)', '(4', '(04)', '(16)x'].map(count => `hash${count}`)
      .concat('Hash(2)').map(key => [`${key}=${url('a')}`, `entry 1: ${buckets}`] as const),
    [
      `hash(4)=${url('a')}|${url('b')}|${url('c')}`,
      'entry 1: the number of URLs must divide 4, got 3'
    ],
    [
      `hash(1)=${url('a')}|${url('b')}`,
      'entry 1: the number of URLs must divide 1, got 2'
    ],
    [
      `acme=${url('a')},globex=postgres://other:hunter2@b/shop`,
      'entry 2: all URLs must have the same user'
    ],
    [
      `acme=${url('a')},globex=postgres://app:hunter22@a/shop`,
      'entry 2: has another password or other parameters for a:5432/shop than an earlier URL'
    ]
  ]
  for (const [text, problem] of rows) {
    t.throws(() => parseDatabaseRoutes(text), { message: problem }, problem)
    t.notMatch(problem, /hunter2/)
  }
})
