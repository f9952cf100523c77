/**
 * Tests the recognition of engines that are not available to tests, by the texts of version() in
 * their documentation and sources. The text of PGlite is that of PGlite 0.5.16.
 */
import t from 'tap'
import { recognizeEngine, refuseProduct } from '../../../src/postgres/engine.ts'

const gcc = 'compiled by gcc (GCC) 7.3.1, 64-bit'

t.test('products that are PostgreSQL are served', async t => {
  for (const version of [
    `PostgreSQL 14.13 on x86_64-pc-linux-gnu, ${gcc}`,
    `PostgreSQL 15.20 (Debian 15.20-0+deb12u1) on x86_64-pc-linux-gnu, ${gcc}`,
    `PostgreSQL 16.4 - Percona Distribution on x86_64-pc-linux-gnu, ${gcc}`,
    'PostgreSQL 16.1, compiled by Visual C++ build 1937, 64-bit',
    'PostgreSQL 17.2 on x86_64-windows, compiled by msvc-19.42.34435, 64-bit',
    `PostgreSQL 19devel on aarch64-unknown-linux-gnu, ${gcc}`,
    `PostgreSQL 18beta1 on x86_64-pc-linux-gnu, ${gcc}`,
    `PostgreSQL 17.5 (6bc9ef8) on aarch64-unknown-linux-gnu, ${gcc}`
  ]) t.equal(refuseProduct(version), undefined, version)
})

t.test('products that are known not to work are refused by name', async t => {
  for (const [name, version] of [
    ['CockroachDB', 'CockroachDB CCL v25.2.0 (x86_64-pc-linux-gnu, built 2025/05/09, go1.23.7)'],
    ['YugabyteDB', `PostgreSQL 15.12-YB-2025.2.0.0-b131 on x86_64-pc-linux-gnu, ${gcc}`],
    [
      'Amazon Redshift',
      'PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2, Redshift 1.0.12103'
    ],
    ['Greenplum', `PostgreSQL 14.4 (Apache Cloudberry 2.0.0 build 1) on x86_64-linux, ${gcc}`],
    ['Greenplum', `PostgreSQL 12.12 (Greenplum Database 7.1.0 build 1) on x86_64-linux, ${gcc}`],
    ['Materialize', 'PostgreSQL 9.5.0 on x86_64-unknown-linux-gnu (Materialize v0.130.0)'],
    [
      'PGlite',
      'PostgreSQL 18.6 (PGlite 0.5.16) on wasm32-unknown-emscripten, compiled by emcc (…), 32-bit'
    ]
  ] as const) t.match(refuseProduct(version), `${name} is not supported: `, version)
})

t.test('what is not known is refused', async t => {
  t.equal(
    refuseProduct(`PostgreSQL 13.18 on x86_64-pc-linux-gnu, ${gcc}`),
    'PostgreSQL 13 is not supported: the service needs 14 or later'
  )
  for (const version of ['PostgreSQL 16', 'CrateDB 5.7.0', 'PostgreSQL 14.1 on Spanner', '']) {
    t.match(refuseProduct(version), /^the database is not known to work with the service: /)
  }
})

t.test('an extension shows that a database is distributed', async t => {
  const rows = [
    [null, undefined, 'postgresql', undefined],
    [null, 'citus', 'citus', undefined],
    ['13.2-1', undefined, 'citus', undefined],
    ['13.2-1', 'citus', 'citus', undefined],
    ['13.2-1', 'postgresql', 'postgresql', /extension citus: row level security fails open/],
    ['12.1-1', undefined, 'citus', /^Citus 12\.1-1 is not supported, only Citus 13: row level/],
    ['12.1-1', 'citus', 'citus', /^Citus 12\.1-1 is not supported/]
  ] as const
  for (const [version, chosen, engine, refusal] of rows) {
    const recognized = recognizeEngine({ citus: version, onStandby: false }, chosen)
    t.match(recognized, { engine, refusal }, `${version} as ${chosen}`)
  }
})

t.test('a standby of a coordinator is refused', async t => {
  const recognize = (citus: string | null) =>
    recognizeEngine({ citus, onStandby: true }, undefined)
  t.match(recognize('13.2-1'), { engine: 'citus', refusal: /^a standby of the coordinator/ })
  t.match(recognize(null), { engine: 'postgresql', refusal: undefined })
})
