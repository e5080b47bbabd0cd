"""Rows of the sweeps of a study, for the scripts that make its tables."""
import csv
import subprocess


def rows_of_sweep(folder, program, *options):
    """The runs of a sweep's folder that are done, as `sluice report` has them."""
    subprocess.run([program, "report", str(folder), *options], check=True,
                   stdout=subprocess.DEVNULL)
    with open(folder / "report_runs.csv", newline="") as file:
        return [row for row in csv.DictReader(file) if row["state"] == "done"]


def parts_of_label(label):
    """{"boundary": "FR", "lr": "0.1"} of "boundary=FR, lr=0.1"."""
    return dict(part.split("=", 1) for part in label.split(", ")
                if "=" in part)


def write_rows(rows, path):
    names = list(dict.fromkeys(name for row in rows for name in row))
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
