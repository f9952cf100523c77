/** Tests that database URLs are parsed as libpq does, and that no error contains a password. */
import fc from 'fast-check'
import t from 'tap'
import { parseDatabaseUrl } from '../../../src/config/database-url.ts'

const local = { host: 'localhost', port: 5432 }

t.test('a short URL gets the defaults', async t => {
  t.strictSame(parseDatabaseUrl('postgres://app@db'), {
    hosts: [{ host: 'db', port: 5432 }],
    user: 'app',
    password: undefined,
    database: 'app',
    tls: {
      mode: 'disable',
      rootCertPath: undefined,
      certPath: undefined,
      keyPath: undefined,
      negotiation: 'postgres'
    },
    targetSessionAttrs: 'any',
    connectTimeoutMs: 5000,
    applicationName: 'oneflight',
    options: undefined
  })
})

const valid: ReadonlyArray<readonly [url: string, expected: object]> = [
  ['postgresql://app:pw@db:6432/shop', {
    hosts: [{ host: 'db', port: 6432 }],
    user: 'app',
    password: 'pw',
    database: 'shop'
  }],
  ['postgres://app:@db/', { password: undefined, database: 'app' }],
  ['postgres://a%40b:p%40%2F%3A%25%3F@d-b_1.x/sh%2Fop', {
    user: 'a@b',
    password: 'p@/:%?',
    database: 'sh/op',
    hosts: [{ host: 'd-b_1.x', port: 5432 }]
  }],
  ['postgres://app:p?w#&=@db/shop', { password: 'p?w#&=', hosts: [{ host: 'db', port: 5432 }] }],
  ['postgres://app:a+b@db/shop?application_name=a+b%20c=d', {
    password: 'a+b',
    applicationName: 'a+b c=d'
  }],
  ['postgres://app@', { hosts: [local] }],
  ['postgres://app@:6432/shop', { hosts: [{ host: 'localhost', port: 6432 }] }],
  ['postgres://app@db:/shop', { hosts: [{ host: 'db', port: 5432 }] }],
  ['postgres://app@h1:1,h2:2,h3/shop', {
    hosts: [{ host: 'h1', port: 1 }, { host: 'h2', port: 2 }, { host: 'h3', port: 5432 }]
  }],
  ['postgres://app@[::1]:6432,[fe80::1%25eth0]/shop', {
    hosts: [{ host: '::1', port: 6432 }, { host: 'fe80::1%eth0', port: 5432 }]
  }],
  ['postgres://app@%2Ftmp:6432,db/shop', {
    hosts: [{ path: '/tmp/.s.PGSQL.6432' }, { host: 'db', port: 5432 }]
  }],
  ['postgres://app@/shop?host=/tmp&port=5433', { hosts: [{ path: '/tmp/.s.PGSQL.5433' }] }],
  ['postgres:///shop?user=app&password=p%40w&host=h1,::1', {
    user: 'app',
    password: 'p@w',
    hosts: [{ host: 'h1', port: 5432 }, { host: '::1', port: 5432 }]
  }],
  ['postgres://app@/shop?host=h1,h2&port=1', {
    hosts: [{ host: 'h1', port: 1 }, { host: 'h2', port: 1 }]
  }],
  ['postgres://app@:7/shop?host=h1,h2', {
    hosts: [{ host: 'h1', port: 7 }, { host: 'h2', port: 7 }]
  }],
  ['postgres://old:old@db/old?user=app&password=pw&dbname=shop', {
    user: 'app',
    password: 'pw',
    database: 'shop'
  }],
  ['postgres://app@db?connect_timeout=7&options=-c%20geqo%3Doff', {
    connectTimeoutMs: 7000,
    options: '-c geqo=off',
    database: 'app'
  }],
  ['postgres://app@db?target_session_attrs=read-write&gssencmode=prefer&channel_binding=disable', {
    targetSessionAttrs: 'read-write'
  }],
  ['postgres://app@db?sslmode=allow', { tls: { mode: 'allow' } }],
  ['postgres://app@db?sslmode=require', { tls: { mode: 'require', rootCertPath: undefined } }],
  ['postgres://app@db?ssl=true', { tls: { mode: 'require' } }],
  ['postgres://app@db?sslmode=require&sslrootcert=%2Fr', {
    tls: { mode: 'verify-ca', rootCertPath: '/r' }
  }],
  ['postgres://app@db?sslmode=verify-full&sslrootcert=/r&sslcert=/c&sslkey=/k', {
    tls: { mode: 'verify-full', rootCertPath: '/r', certPath: '/c', keyPath: '/k' }
  }],
  ['postgres://app@db?sslmode=verify-full', {
    tls: { mode: 'verify-full', rootCertPath: 'system' }
  }],
  ['postgres://app@db?sslrootcert=system', {
    tls: { mode: 'verify-full', rootCertPath: 'system' }
  }],
  ['postgres://app@db?sslmode=require&sslnegotiation=direct', {
    tls: { mode: 'require', negotiation: 'direct' }
  }]
]
t.test('valid URLs are parsed', async t => {
  for (const [url, expected] of valid) t.match(parseDatabaseUrl(url), expected, url)
})

const invalid: ReadonlyArray<readonly [url: string, message: string | RegExp]> = [
  ['', 'expected postgres://user:password@host:port/database'],
  ['mysql://app:hunter2@db', 'expected postgres://user:password@host:port/database'],
  ['postgres://db/shop', 'has no user'],
  ['postgres://app:x@hunter2@db/shop', /an unencoded "@"/],
  ['postgres://app:hunter2%zz@db', 'has an invalid percent-encoding in its password'],
  ['postgres://a%:hunter2@db', 'has an invalid percent-encoding in its user'],
  ['postgres://app:hunter2@db?password=%', 'has an invalid percent-encoding in its parameter'],
  ['postgres://app:hunter2@[::1/shop', 'has a malformed host; only IPv6 addresses have brackets'],
  ['postgres://app:hunter2@::1/shop', 'port must be an integer from 1 to 65535'],
  ['postgres://app:hunter2@h1,,h2/shop', 'has an empty host in its list'],
  ['postgres://app:hunter2@d b/shop', /not a name, an address or a socket directory/],
  ['postgres://app:hunter2@db:0/shop', 'port must be an integer from 1 to 65535'],
  ['postgres://app:hunter2@h1:1,h2:2/shop?host=h', 'has 1 hosts but 2 ports'],
  ['postgres://app:hunter2@db?sslmod=require', 'has the unknown parameter sslmod'],
  ['postgres://app@db?password=x&hunter2=x', 'has an unknown parameter'],
  ['postgres://app@db?password=x&hunter2', 'has a parameter without "="'],
  ['postgres://app:hunter2@db?sslmode=', 'sslmode is empty'],
  ['postgres://app:hunter2@db?sslmode=require&sslmode=disable', 'sslmode is given twice'],
  ['postgres://app:hunter2@db?sslmode=hunter2',
    'sslmode must be one of disable, allow, prefer, require, verify-ca, verify-full'],
  ['postgres://app:hunter2@db?gssencmode=require', 'gssencmode must be one of disable, prefer'],
  ['postgres://app:hunter2@db?connect_timeout=0',
    'connect_timeout must be an integer from 1 to 600'],
  ['postgres://app:hunter2@db?sslrootcert=/r',
    'has certificates but no sslmode; add sslmode=verify-full'],
  ['postgres://app:hunter2@db?sslrootcert=system&sslmode=require',
    'sslrootcert=system requires sslmode=verify-full'],
  ['postgres://app:hunter2@db?sslmode=verify-ca', 'sslmode=verify-ca requires sslrootcert'],
  ['postgres://app:hunter2@db?sslmode=require&sslcert=/c',
    'sslcert and sslkey must be set together'],
  ['postgres://app:hunter2@db?sslnegotiation=direct&sslmode=prefer',
    'sslnegotiation=direct requires sslmode=require or stronger']
]
t.test('invalid URLs are rejected without revealing the password', async t => {
  for (const [url, message] of invalid) {
    const error = t.throws(() => parseDatabaseUrl(url), { message }, url) as Error
    t.notMatch(error.message, /hunter2/)
    t.equal(error.cause, undefined)
  }
})

t.test('property: percent-encoded users, passwords and databases are decoded', async t => {
  const text = fc.string({ unit: 'grapheme', minLength: 1 }).filter(one => !one.includes('\0'))
  fc.assert(fc.property(text, text, text, (user, password, database) => {
    const [u, p, d] = [user, password, database].map(encodeURIComponent)
    t.match(parseDatabaseUrl(`postgres://${u}:${p}@db/${d}`), { user, password, database })
  }))
})
