/**
 * Creates random ids with `getRandomValues`, because `crypto.randomUUID` does not exist on pages
 * that were not loaded over TLS.
 */

/** Returns a UUID, version 4. */
export function randomId (): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  const hex = Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join('')
  const variant = '89ab'.charAt((bytes[8] as number) & 3)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-${variant}${
    hex.slice(17, 20)
  }-${hex.slice(20)}`
}
