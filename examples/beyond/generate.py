"""Writes orders and their customers as CSV files, which both ways read.

    python3 examples/beyond/generate.py --orders 1000000 data

The rows depend only on the number of orders. A file of each kind becomes a partition.
"""

import argparse
from datetime import date, timedelta
from multiprocessing import Pool
from pathlib import Path

ORDERS_PER_CUSTOMER = 10
REGIONS = [f"region-{number:02}" for number in range(16)]
DAYS = [str(date(2026, 1, 1) + timedelta(days=day)) for day in range(365)]
MASK = 2**64 - 1


def mixed(number):
    """64 bits that look random, and are always the same for a number."""
    bits = number * 0x9E3779B97F4A7C15 & MASK
    bits = (bits ^ bits >> 32) * 0xD6E8FEB86659FD93 & MASK
    return bits ^ bits >> 32


def order(number, customers):
    bits, customer = divmod(mixed(number), customers)
    bits, day = divmod(bits, len(DAYS))
    bits, quantity = divmod(bits, 9)
    bits, cents = divmod(bits, 20_000)
    status = "cancelled" if bits % 20 == 0 else "paid"
    price = f"{cents // 100}.{cents % 100:02}"
    return f"{number},{DAYS[day]},{customer + 1},{quantity + 1},{price},{status}\n"


def customer(number, _customers):
    return f"{number},{REGIONS[mixed(number) % len(REGIONS)]}\n"


def write(path, head, row, numbers, customers):
    with open(path, "w", encoding="ascii") as file:
        file.write(head)
        file.writelines(row(number, customers) for number in numbers)


def parts(total, count):
    """The numbers from 1 to the total, in as many ranges as there are files."""
    bounds = [total * part // count for part in range(count + 1)]
    return [range(first + 1, last + 1) for first, last in zip(bounds, bounds[1:])]


def generate(folder, orders, files):
    """Replaces what an earlier run has written, and what jobs have made of it."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for old in [*folder.glob("orders-*.csv*"), *folder.glob("customers-*.csv*")]:
        old.unlink()
    customers = max(orders // ORDERS_PER_CUSTOMER, 1)
    kinds = [
        ("orders", "id,day,customer,quantity,price,status\n", order, orders),
        ("customers", "id,region\n", customer, customers),
    ]
    work = [
        (folder / f"{kind}-{part:03}.csv", head, row, numbers, customers)
        for kind, head, row, total in kinds
        for part, numbers in enumerate(parts(total, files))
    ]
    with Pool() as pool:
        pool.starmap(write, work)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Writes orders and their customers as CSV files.")
    parser.add_argument("folder", help="where the files are written")
    parser.add_argument("--orders", type=int, required=True, help="number of orders")
    parser.add_argument("--files", type=int, default=16, help="number of files of each kind")
    given = parser.parse_args()
    generate(given.folder, given.orders, given.files)
