// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A workload in the manner of TPC-B on Berkeley DB: one process, one transaction after the other. Each adds an amount
 * to an account, a teller and a branch, appends to the history, and is written to the log when it commits.
 *
 *     tpcb FOLDER WARM_UP_SECONDS SECONDS
 *
 * Prints transactions per second, and the median and the 99th percentile of their times in microseconds.
 */
#include <db.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ACCOUNTS = 100000, TELLERS = 100, BRANCHES = 10, MOST = 4000000 };

struct balance {
	unsigned number;
	long long amount;
	char filler[84];
};

static DB_ENV *environment;
static unsigned long long state = 88172645463325252ull;

static unsigned draw(unsigned below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

static void check(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "tpcb: %s: %s\n", what, db_strerror(error));
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static DB *open_table(const char *name, DBTYPE type, u_int32_t length)
{
	DB *table;

	check(db_create(&table, environment, 0), name);
	if (type == DB_RECNO)
		check(table->set_re_len(table, length), name);
	check(table->open(table, NULL, name, NULL, type, DB_CREATE | DB_AUTO_COMMIT, 0600), name);
	return table;
}

static void fill(DB *table, unsigned count)
{
	struct balance row = { 0 };
	DBT key = { .data = &row.number, .size = sizeof(row.number) };
	DBT value = { .data = &row, .size = sizeof(row) };
	DB_TXN *transaction;

	check(environment->txn_begin(environment, NULL, &transaction, DB_TXN_NOSYNC), "txn_begin");
	for (row.number = 0; row.number < count; row.number++)
		check(table->put(table, transaction, &key, &value, 0), "put");
	check(transaction->commit(transaction, 0), "commit");
}

static void add(DB *table, DB_TXN *transaction, unsigned number, int amount)
{
	struct balance row;
	DBT key = { .data = &number, .size = sizeof(number) };
	DBT value = { .data = &row, .ulen = sizeof(row), .size = sizeof(row), .flags = DB_DBT_USERMEM };

	check(table->get(table, transaction, &key, &value, DB_RMW), "get");
	row.amount += amount;
	check(table->put(table, transaction, &key, &value, 0), "put");
}

static int by_time(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

int main(int count, char **words)
{
	static float times[MOST];
	struct { unsigned account, teller, branch; int amount; char filler[34]; } event = { 0 };
	db_recno_t place;
	DBT key = { .data = &place, .ulen = sizeof(place), .flags = DB_DBT_USERMEM };
	DBT value = { .data = &event, .size = sizeof(event) };
	DB *accounts, *tellers, *branches, *history;
	double begin, timed, end;
	unsigned done = 0;

	if (count != 4)
		return 2;
	check(db_env_create(&environment, 0), "db_env_create");
	check(environment->set_cachesize(environment, 0, 32 << 20, 1), "set_cachesize");
	check(environment->open(environment, words[1], DB_CREATE | DB_INIT_TXN | DB_INIT_LOG | DB_INIT_LOCK |
				DB_INIT_MPOOL | DB_PRIVATE, 0600), words[1]);
	accounts = open_table("accounts", DB_HASH, 0);
	tellers = open_table("tellers", DB_HASH, 0);
	branches = open_table("branches", DB_HASH, 0);
	history = open_table("history", DB_RECNO, sizeof(event));
	fill(accounts, ACCOUNTS);
	fill(tellers, TELLERS);
	fill(branches, BRANCHES);
	begin = now();
	timed = begin + atof(words[2]);
	end = timed + atof(words[3]);
	for (double from = begin, to; from < end && done < MOST; from = to) {
		DB_TXN *transaction;

		event.account = draw(ACCOUNTS);
		event.teller = draw(TELLERS);
		event.branch = event.teller % BRANCHES;
		event.amount = (int)draw(2000) - 1000;
		check(environment->txn_begin(environment, NULL, &transaction, 0), "txn_begin");
		add(accounts, transaction, event.account, event.amount);
		add(tellers, transaction, event.teller, event.amount);
		add(branches, transaction, event.branch, event.amount);
		check(history->put(history, transaction, &key, &value, DB_APPEND), "append");
		check(transaction->commit(transaction, 0), "commit");
		to = now();
		if (from >= timed)
			times[done++] = (to - from) * 1e6;
	}
	qsort(times, done, sizeof(times[0]), by_time);
	printf("%f %f %f\n", done / atof(words[3]), times[done / 2], times[done / 100 * 99]);
	return 0;
}
