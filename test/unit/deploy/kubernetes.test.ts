/**
 * Tests deploy/kubernetes and deploy/pgbouncer: selectors match labels, named ports exist, the
 * grace period suffices, no container runs as root, and the database has connections for the
 * maximum number of instances. Reads the manifests as text. If kubectl is installed, kustomize
 * builds them.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { configItems, type Config } from '../../../schemas/config.ts'
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

const base = read('kubernetes')
const everything = [
  ...base,
  ...read('kubernetes/migrate'),
  ...read('kubernetes/monitoring'),
  ...read('pgbouncer')
]
const find = (kind: string, name = 'oneflight'): Manifest =>
  everything.find(one => one.kind === kind && one.metadata.name === name)
const pods: ReadonlyArray<
  { readonly name: string, readonly labels: Record<string, string>, readonly spec: Manifest }
> = everything.filter(({ kind }) => kind === 'Deployment' || kind === 'Job').map(object => ({
  name: object.metadata.name,
  labels: object.spec.template.metadata.labels,
  spec: object.spec.template.spec
}))
const defaultOf = (name: keyof Config): number =>
  Number(configItems.find(([key]) => key === name)?.[1].default)
const literalsOf = (directory: string): string[] =>
  (parse(readFileSync(join(root, directory, 'kustomization.yaml'), 'utf8')) as Manifest)
    .configMapGenerator.flatMap(({ literals = [] }: Manifest) => literals)
/** The value that the kustomization sets. */
const setting = (name: keyof Config): number =>
  Number(literalsOf('kubernetes').find(literal => literal.startsWith(`${name}=`))?.split('=')[1])
const podsOf = (selector: Record<string, string>): string[] =>
  pods.filter(({ labels }) =>
    Object.entries(selector).every(([key, value]) => labels[key] === value)
  ).map(({ name }) => name)
const portNames = (name: string): string[] =>
  pods.filter(pod => pod.name === name).flatMap(({ spec }) =>
    spec.containers.flatMap((container: Manifest) =>
      container.ports?.map((port: Manifest) => port.name) ?? []
    )
  )

t.test('selectors match only their pods, and named ports exist', async t => {
  const services = [
    ['Service', 'oneflight', 'oneflight'],
    ['Service', 'oneflight-admin', 'oneflight'],
    ['Service', 'oneflight-pgbouncer', 'oneflight-pgbouncer']
  ] as const
  for (const [kind, name, pod] of services) {
    const { spec } = find(kind, name)
    t.same(podsOf(spec.selector), [pod], name)
    for (const { targetPort } of spec.ports) {
      t.ok(portNames(pod).includes(targetPort), `${name}: ${targetPort}`)
    }
  }
  for (const { kind, metadata: { name }, spec } of everything) {
    const selector = kind === 'NetworkPolicy'
      ? spec.podSelector
      : ['Deployment', 'PodDisruptionBudget', 'PodMonitor'].includes(kind)
          ? spec.selector
          : undefined
    if (selector !== undefined) t.same(podsOf(selector.matchLabels), [name], `${kind} ${name}`)
    if (kind === 'NetworkPolicy') {
      for (const { ports } of spec.ingress) {
        for (const { port } of ports) {
          t.ok(portNames(name).includes(port), `${kind} ${name}: ${port}`)
        }
      }
    }
    if (kind === 'PodMonitor') {
      for (const { port } of spec.podMetricsEndpoints) {
        t.ok(portNames(name).includes(port), `${kind} ${name}: ${port}`)
      }
    }
    if (kind === 'HorizontalPodAutoscaler') {
      t.ok(find(spec.scaleTargetRef.kind, spec.scaleTargetRef.name) !== undefined)
    }
  }
  const { containers: [{ ports }] } = find('Deployment').spec.template.spec
  t.same(ports.map(({ containerPort }: Manifest) => containerPort), [
    defaultOf('HTTP_PORT'),
    defaultOf('ADMIN_HTTP_PORT')
  ])
  t.match(find('Service').spec.ports, [{ name: 'http' }], 'the admin port is not exposed')
})

t.test('only monitoring may reach the admin port', async t => {
  const rules = find('NetworkPolicy').spec.ingress
  t.same(rules.map((rule: Manifest) => [rule.ports, rule.from !== undefined]), [
    [[{ port: 'http' }], false],
    [[{ port: 'admin' }], true]
  ])
  t.equal(rules[1].from.length, 1, 'one rule requires both namespace and pod')
  t.same(Object.keys(rules[1].from[0]), ['namespaceSelector', 'podSelector'])
})

t.test('probes and grace period fit the timeouts of the service', async t => {
  const {
    terminationGracePeriodSeconds: grace,
    topologySpreadConstraints: spread,
    containers: [container]
  } = find('Deployment').spec.template.spec
  t.match(container, {
    startupProbe: { httpGet: { path: '/live', port: 'admin' } },
    livenessProbe: { httpGet: { path: '/live', port: 'admin' } },
    readinessProbe: { httpGet: { path: '/ready', port: 'admin' } }
  })
  // The readiness check of the service takes up to one second to connect and one to query.
  t.ok(container.readinessProbe.timeoutSeconds > 2)
  t.ok(grace * 1000 > setting('SHUTDOWN_TIMEOUT_MS'), `${grace} s`)
  // The pod leaves the Service before it refuses connections.
  const { periodSeconds, failureThreshold } = container.readinessProbe
  t.ok(setting('SHUTDOWN_DELAY_MS') >= periodSeconds * failureThreshold * 1000)
  for (const { labelSelector } of spread) {
    t.same(podsOf(labelSelector.matchLabels), ['oneflight'])
  }
  t.same(find('Deployment').spec.strategy.rollingUpdate, { maxSurge: 1, maxUnavailable: 0 })
  t.equal(find('HorizontalPodAutoscaler').spec.minReplicas, 3)
  t.equal(find('PodDisruptionBudget').spec.maxUnavailable, 1)
})

t.test('containers do not run as root and cannot write to their file system', async t => {
  for (const { name, spec } of pods) {
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

t.test('the database has connections for the maximum number of instances', async t => {
  const { maxReplicas } = find('HorizontalPodAutoscaler').spec
  const surge = find('Deployment').spec.strategy.rollingUpdate.maxSurge
  const connections = (maxReplicas + surge) * (defaultOf('POOL_SIZE') + 4)
  t.ok(
    connections <= 97,
    `${connections} of the 100 connections of an unchanged PostgreSQL, 3 of which are for ` +
      'superusers'
  )
  t.match(
    readFileSync(join(root, 'kubernetes/autoscaler.yaml'), 'utf8'),
    new RegExp(`\\b${connections} with the default pool`)
  )
  const ini = readFileSync(join(root, 'pgbouncer/pgbouncer.ini'), 'utf8')
  const limit = (name: string): number =>
    Number(new RegExp(`^${name} = (\\d+)$`, 'm').exec(ini)?.[1])
  t.ok(limit('default_pool_size') >= maxReplicas * defaultOf('POOL_SIZE'))
  t.ok(limit('max_client_conn') >= connections)
})

t.test('the memory alert uses the memory limit', async t => {
  const { limits: { memory } } = find('Deployment').spec.template.spec.containers[0].resources
  t.equal(memory, '1280Mi')
  t.match(
    readFileSync(join(root, 'observability/alerts.yml'), 'utf8'),
    /process_resident_memory_bytes\{job="oneflight"\} > 0\.85 \* 1280 \* 1024 \* 1024\n/
  )
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
    const maps = new Set(
      built.filter(({ kind }) => kind === 'ConfigMap').map(({ metadata }) =>
        metadata.name as string
      )
    )
    const referred = [...output.matchAll(/configMap(?:Ref)?:\n +name: (\S+)/g)].map(([, name]) =>
      name as string
    )
    t.same(new Set(referred), maps, `${directory}: config maps`)
    if (directory === 'pgbouncer') {
      t.match(built.find(({ metadata }) => /^oneflight-[a-z0-9]{10}$/.test(metadata.name)).data, {
        PREPARED_STATEMENTS: 'off',
        LOG_LEVEL: 'info'
      })
    }
  }
})
