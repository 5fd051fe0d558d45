// Calls with a client generated from the whole document. Type-checked and run by
// scripts/client-test.

import {
  getDailyUsage,
  getNative,
  platformBetaGetSubscribers,
  platformGammaGetMe,
  platformGammaPostUserSelfIdUserLists,
  uploadMedia,
} from './client';
import { client } from './client/client.gen';

function expect(condition: boolean, message: unknown): asserts condition {
  if (!condition) {
    console.error('calls.ts:', message);
    process.exit(1);
  }
}

async function readAndWrite(account: string): Promise<void> {
  const me = await platformGammaGetMe({ path: { account } });
  expect(me.response?.status === 200, me);
  expect(me.response.headers.get('X-Credits-Cost') === '1', me);
  const selfId = String((me.data as { _id?: unknown })._id);
  const made = await platformGammaPostUserSelfIdUserLists({
    path: { account, selfId },
    body: { name: 'Made by a client' },
    headers: { 'Idempotency-Key': 'clients-typescript-1' },
  });
  expect(made.response?.ok === true, made);
}

async function pageByPage(account: string): Promise<void> {
  const seen: unknown[] = [];
  for (const offset of ['0', '50', '100']) {
    // platform_beta and platform_gamma share the path, and so the operation.
    const page = await platformBetaGetSubscribers({ path: { account }, query: { limit: '50', offset } });
    expect(page.response?.status === 200 && Array.isArray(page.data), page);
    seen.push(...page.data);
  }
  expect(seen.length === 150, seen.length);
}

async function upload(account: string): Promise<void> {
  const file = new File([new Uint8Array([137, 80, 78, 71])], 'picture.png', { type: 'image/png' });
  const made = await uploadMedia({ path: { account }, body: { file, description: 'From a generated client' } });
  expect(made.response?.ok === true, made);
}

async function errors(account: string): Promise<void> {
  const ours = await platformGammaGetMe({ path: { account: 'nobody' } });
  const error = ours.error;
  expect(typeof error === 'object' && error !== null && 'retryable' in error, ours);
  expect(error.code === 'account_not_found', ours);
  const theirs = await platformGammaPostUserSelfIdUserLists({ path: { account, selfId: 'somebody' }, body: {} });
  expect(theirs.response?.headers.get('X-Error-Source') === 'platform', theirs);
}

async function service(account: string): Promise<void> {
  const usage = await getDailyUsage({ query: { days: 1 } });
  expect(usage.data !== undefined && Array.isArray(usage.data.days), usage);
  const native = await getNative({ path: { account, native_path: 'users/me' } });
  expect(native.response?.headers.get('X-Route') === 'GET users/me', native);
}

async function main(): Promise<void> {
  const [baseUrl, key, gamma, alpha] = process.argv.slice(2);
  expect(baseUrl !== undefined && key !== undefined, 'no address');
  expect(gamma !== undefined && alpha !== undefined, 'no accounts');
  client.setConfig({ baseUrl, headers: { 'X-API-Key': key } });
  let calls = 0;
  client.interceptors.response.use((response) => {
    calls += 1;
    return response;
  });
  await readAndWrite(gamma);
  await pageByPage(gamma);
  await upload(gamma);
  await errors(gamma);
  await service(alpha);
  console.log(`calls: ${calls}`);
}

void main();
