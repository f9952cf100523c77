/**
 * Opens a socket in a separate process: `node open-socket.ts <host:port> <query>` prints "open" or
 * the error message.
 */
import { open } from './sockets.ts'

const [, , host = '', query = ''] = process.argv
await open(host, query, 5000).then(socket => {
  socket.destroy()
  console.log('open')
}, (error: Error) => console.log(error.message))
