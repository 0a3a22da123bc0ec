<?php
/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads the workers' logs, and finds out when two workers had the lock together, and why.
 *
 * A hold lasts from the reply to SETNX until DEL is sent, so with a correct lock, holds never
 * overlap, however slow the network is. Each hold that lasts when the next one begins was
 *
 *   stolen   if another worker's DEL removed its lock in between
 *   expired  otherwise
 *
 * Times are nanoseconds of the monotonic clock, which processes share.
 */

class Hold
{
    public int $worker;
    public int $entered;  /* when SETNX returned 1 */
    public int $left;     /* when DEL was sent */
    public bool $removed; /* DEL returned 1 */
    public bool $sold;
}

class EventLog
{
    private int $entered;

    public function __construct(private string $file, private int $worker)
    {
    }

    public function entered(): void
    {
        $this->entered = hrtime(true);
    }

    public function left(int $when, int $removed, bool $sold): void
    {
        $line = [$this->worker, $this->entered, $when, $removed, (int) $sold];
        file_put_contents($this->file, implode(' ', $line) . "\n", FILE_APPEND);
    }

    /* Returns all workers' holds, in the order in which they began. */
    public static function read(string $file): array
    {
        $holds = [];
        foreach (file($file) as $line) {
            $hold = new Hold();
            [$hold->worker, $hold->entered, $hold->left, $hold->removed, $hold->sold] =
                array_map('intval', explode(' ', $line));
            $holds[] = $hold;
        }
        usort($holds, fn ($a, $b) => $a->entered <=> $b->entered);
        return $holds;
    }
}

/* Returns whether another worker's DEL removed the lock of $hold: it was sent after $hold got the
 * lock and before $next got one. */
function was_stolen(Hold $hold, Hold $next, array $holds): bool
{
    foreach ($holds as $other) {
        if ($other->worker != $hold->worker && $other->removed
            && $other->left > $hold->entered && $other->left < $next->entered) {
            return true;
        }
    }
    return false;
}

function count_overlaps(array $holds): array
{
    $count = ['stolen' => 0, 'expired' => 0];
    for ($i = 0; $i + 1 < count($holds); $i++) {
        $hold = $holds[$i];
        $next = $holds[$i + 1];
        if ($next->entered < $hold->left) {
            $count[was_stolen($hold, $next, $holds) ? 'stolen' : 'expired']++;
        }
    }
    return $count;
}
