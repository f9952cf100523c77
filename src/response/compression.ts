/**
 * How responses of batches are compressed (COMPRESSION=on), as options of @fastify/compress.
 *
 * Measured on loopback, CPU time of the service and latency of one request: 11 KB took 0.65 ms and
 * 1.5 ms unchanged, 0.84 ms and 1.9 ms with gzip; 112 KB took 1.6 ms and 3.6 ms unchanged, 3.3 ms
 * and 5.4 ms with gzip. So a client gains only on links below about 200 Mbit/s.
 */
import { constants } from 'node:zlib'
import type { FastifyCompressOptions } from '@fastify/compress'
import { manyBytes } from './body.ts'

export const compression: FastifyCompressOptions = {
  // A body with a Content-Encoding is refused; the media-type plugin does it.
  globalDecompression: false,
  // For clients without a preference: Brotli takes half the CPU time of gzip from 100 KB on.
  encodings: ['br', 'gzip'],
  // Smaller responses fit into the first packets of a connection (RFC 6928).
  threshold: 10_240,
  // Bodies in one piece. As a stream, 11 KB took 1.5 times the CPU time.
  syncThreshold: manyBytes,
  // The fastest levels. Level 6 of gzip took twice the CPU time for 12 % fewer bytes.
  zlibOptions: { level: 1 },
  brotliOptions: { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }
}
