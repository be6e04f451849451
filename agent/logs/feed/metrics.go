package feed

import "fmt"

// Metrics are the counts in the text format of Prometheus.
func (f *Feeder) Metrics() []byte {
	c := f.Counts()
	readOnly := int64(0)
	if c.ReadOnly {
		readOnly = 1
	}
	var out []byte
	for _, m := range []struct {
		name, kind, help string
		value            int64
	}{
		{"written_total", "counter", "Entries that VictoriaLogs has taken.", c.Sent},
		{"certain_total", "counter", "Entries that VictoriaLogs has on its disk.", c.Certain},
		{"again_total", "counter", "Entries that were sent again, since VictoriaLogs was started again.", c.Again},
		{"write_refused_total", "counter", "Entries that VictoriaLogs will never take.", c.Refused},
		{"write_failures_total", "counter", "How often VictoriaLogs was away or took nothing.", c.Failures},
		{"full", "gauge", "1 where the disk of VictoriaLogs is full, so that it takes nothing.", readOnly},
	} {
		out = fmt.Appendf(out, "# HELP spore_logs_store_%s %s\n# TYPE spore_logs_store_%s %s\nspore_logs_store_%s %d\n",
			m.name, m.help, m.name, m.kind, m.name, m.value)
	}
	return out
}
