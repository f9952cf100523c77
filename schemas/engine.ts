/** The engines whose SQL the service knows: the values of `DATABASE_ENGINE`. */
export const engineNames = ['postgresql', 'citus'] as const

export type EngineName = typeof engineNames[number]
