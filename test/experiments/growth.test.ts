/**
 * Runs the measurement for the page on growth in its smallest form. Figures are not judged, because
 * the machine is shared.
 */
import t from 'tap'
import { major } from '../support/database/restartable-server.ts'
import { haproxy } from '../support/network/haproxy.ts'
import { needs } from '../support/process/programs.ts'
import { growth } from './growth/growth.ts'

const programs = { haproxy, 'PostgreSQL 18': major < 18 ? undefined : 'postgres' }

t.test(...needs('a short run measures everything', programs), async t => {
  const figures = await growth.run(t, { long: false, random: Math.random, log () {} })
  t.equal(figures.length, 4)
  for (const { name, value } of figures) t.ok(value > 0 && Number.isFinite(value), name)
})
