<?php
/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which worker was inside when, from the log that each keeps, and why two were
 * inside together.
 *
 * A hold lasts from the answer to SETNX to the sending of DEL, so holds that
 * were handed off properly never overlap, however slow the network. For each
 * hold that was still going on when the next one began:
 *
 *   stolen   another worker's DEL had removed its lock in between
 *   expired  nobody's had: the lock had run out
 *
 * Times are nanoseconds of the monotonic clock, which processes share.
 */

class Hold
{
    public int $worker;
    public int $entered;  /* SETNX answered: 1 */
    public int $left;     /* DEL sent */
    public bool $removed; /* and answered: 1 */
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

    /* All workers' holds in the order in which they began. */
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

/* What another worker's DEL removed, when it was sent after $hold had its lock and
 * before $next had one, was the lock of $hold. */
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
