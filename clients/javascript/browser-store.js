// Remembers, in the browser's IndexedDB, which report was made for which design: a store for answerOnce and ledger of optrr.js.

const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = request.oncomplete = () => resolve(request.result);
    request.onerror = request.onabort = () => reject(request.error);
  });

/** Asks the browser not to throw this away when it needs room; some ask the person, whose answer is not waited for. */
const keepLong = () => {
  globalThis.navigator?.storage?.persist?.().catch(() => {});
};

export function browserStore(name = "optrr") {
  const transact = async (act) => {
    const opening = indexedDB.open(name, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("answers");
    const database = await done(opening);
    try {
      // transactions that write wait for each other in all tabs, so that no two of them find nothing and draw
      const transaction = database.transaction("answers", "readwrite", { durability: "strict" });
      const [result] = await Promise.all([act(transaction.objectStore("answers")), done(transaction)]);
      return result;
    } finally {
      database.close();
    }
  };
  return {
    all: () => transact((answers) => done(answers.getAll())),
    update: (key, change) =>
      transact(async (answers) => {
        const [kept, all] = await Promise.all([done(answers.get(key)), done(answers.getAll())]);
        const changed = change(kept, all);
        if (changed !== kept) {
          await done(answers.put(changed, key));
          keepLong();
        }
        return changed;
      }),
    remove: (key) => transact((answers) => done(answers.delete(key))),
  };
}
