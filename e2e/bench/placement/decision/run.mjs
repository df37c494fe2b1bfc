// Runs the measurement in V8: node run.mjs MODULE SEED ROUNDS. Prints microseconds, a line for each round, without and
// with the metrics of engines; what is compiled meanwhile is warm by then.
import {readFile} from 'node:fs/promises';
import {WASI} from 'node:wasi';

const [, , path, seed, rounds] = process.argv;
const wasi = new WASI({version: 'preview1'});
const module = await WebAssembly.compile(await readFile(path));
const instance = await WebAssembly.instantiate(module, wasi.getImportObject());
wasi.initialize(instance);
const measure = (round, metrics) => instance.exports.measure(BigInt(seed) + BigInt(round), metrics);
measure(0, 1);
for (let i = 0; i < rounds; i++) {
	console.log(measure(i, 0), measure(i, 1));
}
