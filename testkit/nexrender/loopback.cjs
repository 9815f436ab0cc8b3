// nexrender's server can only be told its port, and then listens on every address. Loaded before it, this keeps every
// server of the process on loopback.
const { Server } = require('net');

const { listen } = Server.prototype;
Server.prototype.listen = function onLoopback(where, ...others) {
  const place = where !== null && typeof where === 'object' ? where : { port: Number(where) };
  const done = others.filter((other) => typeof other === 'function');
  return listen.call(this, { ...place, host: '127.0.0.1' }, ...done);
};
