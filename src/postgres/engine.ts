/**
 * Recognizes the database behind a connection. Many products speak PostgreSQL's protocol but lack
 * what the service relies on, so it serves only products that are known to have it.
 */
import type { EngineName } from '../../schemas/database.ts'

/** A product by the text of its `version()`, and why it is refused. */
interface Product {
  readonly name: string
  readonly version: RegExp
  readonly refusal: string
}

const REFUSED_PRODUCTS: readonly Product[] = [
  {
    name: 'CockroachDB',
    version: /^CockroachDB /,
    refusal: 'advisory locks, on which idempotency keys rely, have no effect there'
  },
  {
    name: 'YugabyteDB',
    version: /-YB-/,
    refusal: 'it has no transaction ids, by which the outcome of a lost COMMIT is looked up'
  },
  {
    name: 'Amazon Redshift',
    version: /\bRedshift\b/,
    refusal: 'it has no row level security by settings and none of the JSON functions'
  },
  {
    name: 'Greenplum',
    version: /\((Greenplum|Apache Cloudberry|Cloudberry) /,
    refusal: 'settings of a transaction are not known to reach its segments, which check policies'
  },
  {
    name: 'Materialize',
    version: /\bMaterialize\b/,
    refusal: 'it has no transactions that change several tables'
  },
  {
    name: 'PGlite',
    version: /\bPGlite\b|\bemscripten\b/i,
    refusal: 'it has no statement timeout, and every session is that of a superuser'
  }
]

/** PostgreSQL and products that are PostgreSQL in all that matters, such as Aurora and Neon. */
const POSTGRESQL = new RegExp(
  String.raw`^PostgreSQL (?<major>\d+)(\.\d+|devel|(alpha|beta|rc)\d+)*` +
    String.raw`( \([^)]+\)| - [^,]+?)*( on \S+)?, compiled by `
)

/** The service needs settings, functions and SQL of this version. */
const FIRST_MAJOR = 14

/** The version of Citus whose behaviour is tested. */
const CITUS_MAJOR = '13'

const OPEN_POLICIES =
  'row level security fails open if request.jwt.claims does not reach the workers'

const SHARED_RESULTS = 'a standby of the coordinator of Citus is not supported: it numbers its ' +
  'transactions as the coordinator does, so on workers each could read rows of the other'

interface RecognizedEngine {
  /** The engine whose SQL the connection gets. */
  readonly engine: EngineName
  /** Why the database is not served as this engine: the text of a log message. */
  readonly refusal: string | undefined
}

/** Returns why a product must not be used, by its `version()`; undefined: it is PostgreSQL. */
export function refuseProduct (version: string): string | undefined {
  const product = REFUSED_PRODUCTS.find(product => product.version.test(version))
  if (product !== undefined) return `${product.name} is not supported: ${product.refusal}`
  const major = POSTGRESQL.exec(version)?.groups?.['major']
  if (major === undefined) return `the database is not known to work with the service: ${version}`
  if (Number(major) >= FIRST_MAJOR) return undefined
  return `PostgreSQL ${major} is not supported: the service needs ${FIRST_MAJOR} or later`
}

interface CitusFacts {
  /**
   * The version of the extension; null: the database does not have it, so Citus distributes none of
   * its tables.
   */
  readonly citus: string | null
  /** Whether batches run on a standby. */
  readonly onStandby: boolean
}

/**
 * Recognizes the engine of a database that is PostgreSQL by its product. `chosen`: the engine that
 * DATABASE_ENGINE names.
 */
export function recognizeEngine (
  { citus, onStandby }: CitusFacts,
  chosen: EngineName | undefined
): RecognizedEngine {
  const found = citus === null ? 'postgresql' : 'citus'
  const engine = chosen ?? found
  if (citus === null) return { engine, refusal: undefined }
  if (engine !== found) {
    return { engine, refusal: `the database has the extension citus: ${OPEN_POLICIES}` }
  }
  if (citus.split('.')[0] !== CITUS_MAJOR) {
    const refusal = `Citus ${citus} is not supported, only Citus ${CITUS_MAJOR}: ${OPEN_POLICIES}`
    return { engine, refusal }
  }
  return { engine, refusal: onStandby ? SHARED_RESULTS : undefined }
}
