// SPDX-License-Identifier: MIT OR Apache-2.0
// Two processes that hand a byte to and fro through pipes. The first writes the number of round trips into a file.
#include <chrono>
#include <cstdio>
#include <string>
#include <sys/prctl.h>
#include <csignal>
#include <unistd.h>

int main(int, char **words)
{
	int to[2], from[2];
	char byte = 0;

	if (pipe(to) || pipe(from))
		return 1;
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		while (read(to[0], &byte, 1) == 1 && write(from[1], &byte, 1) == 1)
			;
		return 0;
	}
	const std::string path = words[1], part = path + ".part";
	auto due = std::chrono::steady_clock::now();
	for (long trips = 0; write(to[1], &byte, 1) == 1 && read(from[0], &byte, 1) == 1;) {
		if (++trips % 16 || std::chrono::steady_clock::now() < due)
			continue;
		due = std::chrono::steady_clock::now() + std::chrono::milliseconds(10);
		if (FILE *file = fopen(part.c_str(), "w")) {
			fprintf(file, "%ld\n", trips);
			fclose(file);
			rename(part.c_str(), path.c_str());
		}
	}
}
