/**
 * Tests deploy/kubernetes and deploy/pgbouncer: no container runs as root, and secrets come from
 * Secret objects. Reads the manifests as text. If kubectl is installed, kustomize builds them.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { configItems } from '../../../schemas/config.ts'
import { findProgram, needs, runProgram } from '../../support/process/programs.ts'

const root = resolve(import.meta.dirname, '../../../deploy')
const kubectl = findProgram('kubectl')

/** A Kubernetes object or a part of one. */
type Manifest = any

const read = (directory: string): Manifest[] =>
  readdirSync(join(root, directory))
    .filter(file => file.endsWith('.yaml') && file !== 'kustomization.yaml')
    .flatMap(file =>
      parseAllDocuments(readFileSync(join(root, directory, file), 'utf8')).map(document => {
        if (document.errors.length > 0) throw document.errors[0]
        return document.toJS() as Manifest
      })
    )

const everything = ['kubernetes', 'kubernetes/migrate', 'pgbouncer'].flatMap(read)
const find = (kind: string, name = 'oneflight'): Manifest =>
  everything.find(one => one.kind === kind && one.metadata.name === name)
const literalsOf = (directory: string): string[] =>
  (parse(readFileSync(join(root, directory, 'kustomization.yaml'), 'utf8')) as Manifest)
    .configMapGenerator.flatMap(({ literals = [] }: Manifest) => literals)

t.test('containers do not run as root and cannot write to their file system', async t => {
  const pods = everything.filter(({ kind }) => kind === 'Deployment' || kind === 'Job')
  t.equal(pods.length, 3)
  for (const { metadata: { name }, spec: { template: { spec } } } of pods) {
    t.match(spec, {
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      securityContext: {
        runAsNonRoot: true,
        runAsUser: Number,
        seccompProfile: { type: 'RuntimeDefault' }
      }
    }, name)
    for (const { securityContext, resources } of spec.containers) {
      t.same(securityContext, {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] }
      }, name)
      t.same(Object.keys(resources.requests), ['cpu', 'memory'], name)
      t.same(Object.keys(resources.limits), ['memory'], name)
    }
  }
})

t.test('secrets come from Secret objects, and the migration has its own', async t => {
  const { envFrom, env } = find('Deployment').spec.template.spec.containers[0]
  t.same([envFrom, env], [
    [{ configMapRef: { name: 'oneflight' } }, { secretRef: { name: 'oneflight' } }],
    undefined
  ])
  const job = find('Job', 'oneflight-migrate').spec.template.spec.containers[0]
  t.same(job.command, ['node', 'src/migrate.ts'])
  t.same(
    job.env.map(({ name, valueFrom: { secretKeyRef } }: Manifest) => [name, secretKeyRef.name]),
    [['DATABASE_URL', 'oneflight'], ['MIGRATE_DATABASE_URL', 'oneflight-migrate']]
  )
  const known = new Set<string>(configItems.map(([name]) => name))
  for (const literal of ['kubernetes', 'pgbouncer'].flatMap(literalsOf)) {
    t.ok(known.has(literal.split('=')[0] as string), literal)
  }
})

t.test(...needs('kustomize builds the manifests', { kubectl }), async t => {
  const overlays = [
    ['kubernetes', [
      'ConfigMap', 'Deployment', 'HorizontalPodAutoscaler', 'NetworkPolicy', 'PodDisruptionBudget',
      'Service', 'Service'
    ]],
    ['kubernetes/migrate', ['Job']],
    ['kubernetes/monitoring', ['PodMonitor']],
    ['pgbouncer', [
      'ConfigMap', 'ConfigMap', 'Deployment', 'Deployment', 'HorizontalPodAutoscaler',
      'NetworkPolicy', 'NetworkPolicy', 'PodDisruptionBudget', 'Service', 'Service', 'Service'
    ]]
  ] as const
  for (const [directory, kinds] of overlays) {
    const { code, output } = await runProgram(kubectl as string, [
      'kustomize',
      join(root, directory)
    ])
    t.equal(code, 0, directory)
    const built = parseAllDocuments(output).map(document => document.toJS() as Manifest)
    t.same(built.map(({ kind }) => kind).toSorted(), kinds, directory)
    if (directory === 'kubernetes/monitoring') continue
    const images = built.flatMap(({ spec }) =>
      spec?.template?.spec.containers.map(({ image }: Manifest) => image) ?? []
    )
    for (const image of images) t.match(image, /:v?\d+\.\d+\.\d+/, image)
    // kustomize renames ConfigMaps; a reference with the old name would not resolve.
    const maps = built.filter(({ kind }) => kind === 'ConfigMap').map(one => one.metadata.name)
    const used = Array.from(output.matchAll(/configMap(?:Ref)?:\n +name: (\S+)/g), ([, to]) => to)
    t.same(new Set(used), new Set(maps), `${directory}: config maps`)
    if (directory === 'pgbouncer') {
      t.match(built.find(({ metadata }) => /^oneflight-[a-z0-9]{10}$/.test(metadata.name)).data, {
        PREPARED_STATEMENTS: 'off',
        LOG_LEVEL: 'info'
      })
    }
  }
})
