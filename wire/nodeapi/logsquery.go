package nodeapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"spore/wire/machine"
)

// LogsQuery is the verb that asks a node's store of logs. A part of its result is a list of entries, each an object as
// journalctl(1) makes it with --output=json and with the fields cluster, node and role, in the order of time; the last
// part is a machine.LogsEnd.
const LogsQuery = "logs-query"

// PodLogs is the verb by which a node reads the files of its pods for whoever asks it for logs (Logs.Pod). Its result
// is lists of entries as those of LogsPath.
const PodLogs = "logs-pods"

// MaxStoreLines is how many entries a store answers with at most.
const MaxStoreLines = 100_000

// logSources is a Check that takes sources of entries with commas between them.
func logSources(value string) error {
	for s := range strings.SplitSeq(value, ",") {
		if !slices.Contains(machine.LogSources(), s) {
			return fmt.Errorf("%.64q is not a source of logs; there are %s", s, strings.Join(machine.LogSources(), ", "))
		}
	}
	return nil
}

// PodParts reads what names a pod, or one container of it: NAMESPACE/POD or NAMESPACE/POD/CONTAINER.
func PodParts(value string) (namespace, pod, container string, err error) {
	parts := strings.Split(value, "/")
	for _, p := range parts {
		// The longest is the name of a pod, a DNS subdomain (RFC 1123).
		if p == "" || len(p) > 253 || !made(p, ".-") || strings.ToLower(p) != p {
			parts = nil
		}
	}
	switch len(parts) {
	case 2:
		return parts[0], parts[1], "", nil
	case 3:
		return parts[0], parts[1], parts[2], nil
	}
	return "", "", "", fmt.Errorf("%.64q is not a pod; write it as NAMESPACE/POD or NAMESPACE/POD/CONTAINER", value)
}

func podName(value string) error {
	_, _, _, err := PodParts(value)
	return err
}

// unitNames is a Check that takes full names of units with commas between them.
func unitNames(value string) error {
	list := strings.Split(value, ",")
	if len(list) > maxUnits {
		return fmt.Errorf("%d units are asked for; at most %d are possible", len(list), maxUnits)
	}
	for _, u := range list {
		full, err := UnitName(u)
		if err == nil && full != u {
			err = errors.New("the full name of a unit is needed, such as kafka.service")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// moment is a Check that takes times of RFC 3339.
func moment(value string) error {
	_, err := parseMoment("the time", value)
	return err
}

// priority is a Check that takes the number of a priority.
func priority(value string) error {
	n, err := ParsePriority(value)
	if err == nil && n != value {
		err = errors.New("the priority is to be a number")
	}
	return err
}

// expression is a Check that takes an expression of RE2.
func expression(value string) error {
	_, err := ParseGrep(value)
	return err
}

// boot is a Check that takes a start of the machine.
func boot(value string) error {
	_, err := ParseBoot(value)
	return err
}
