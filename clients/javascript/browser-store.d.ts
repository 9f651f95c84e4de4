import type { Store } from "./optrr.js";

/**
 * A store in the browser's IndexedDB, in the database `name` of the page's origin.
 *
 * Rejects where the browser keeps nothing (storage switched off). Whoever deletes the browser's data deletes it, too.
 */
export function browserStore(name?: string): Store & { remove(key: string): Promise<void> };
