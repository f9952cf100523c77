/**
 * Tests what `npm run dev` prints. e2e/dev.test.ts runs the printed commands, also after a change
 * of the file and without a role.
 */
import t from 'tap'
import { describeStart } from '../../../../scripts/dev/banner.ts'

const facts = {
  url: 'http://127.0.0.1:4000',
  adminUrl: 'http://127.0.0.1:9568',
  dataDir: '/work/.data/postgres',
  secretFile: '.data/jwt-secret',
  database: {
    url: 'postgres://postgres@127.0.0.1:15432/shop',
    outdated: false,
    roles: [],
    ungranted: []
  }
}

t.test('the shop: a token, and the URL only when the command line needs it', async t => {
  const shop = describeStart({ ...facts, token: 'a.b.c' })
  t.match(
    shop,
    '\nexport ONEFLIGHT_TOKEN=a.b.c\n\nThen send a batch:\n\ncurl http://127.0.0.1:4000 '
  )
  t.match(shop, '\nTo start again with a fresh database: npm run dev -- --reset\n')
  const other = describeStart({ ...facts, token: 'a.b.c', url: 'http://127.0.0.1:4001' })
  t.match(other, '\nexport ONEFLIGHT_TOKEN=a.b.c\nexport ONEFLIGHT_URL=http://127.0.0.1:4001\n')
  t.match(other, '\ncurl http://127.0.0.1:4001 ')
})

t.test('an own file: the command for its first role, and the statements to add', async t => {
  const describe = (roles: string[], ungranted: string[]): string =>
    describeStart({ ...facts, database: { ...facts.database, roles, ungranted }, file: 'n.sql' })
  t.match(
    describe([], ['notes']),
    `
No role of a token may use notes.
If batches need one of them, grant what they do in n.sql, for example to read:

create role app_user nologin;
grant app_user to oneflight;
grant select on notes to app_user;
`
  )
  const several = describe(['reader'], ['a', 'b', 'c', 'd', 'e', 'f', 'g'])
  t.match(several, '\nNo role of a token may use a, b, c, d, e and 2 more.\n')
  t.match(several, '\n\ngrant select on a to reader;\n')
  t.notMatch(several, 'create role')
  const two = describe(['admin', 'reader'], ['audit'])
  t.match(two, '\nSet a token. Roles of this database: admin, reader\n')
  t.match(two, '=$(npm run -s oneflight -- token --role admin --sub alice)\n')
  t.match(two, '\ngrant select on audit to <role>;\n')
})
