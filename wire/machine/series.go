package machine

// Series is one series of the answer to a query of metrics (verb metrics-query; each part of the result is a list).
type Series struct {
	// Labels are its labels; __name__ is that of the metric.
	Labels map[string]string `json:"labels,omitempty"`
	// Samples are in order of time; one, where the query asked for a moment.
	Samples []Sample `json:"samples"`
}

// Sample is a value at a time.
type Sample struct {
	// At is in Unix seconds.
	At float64 `json:"at"`
	// Value is as the store wrote it: a number, or NaN, +Inf and -Inf, which JSON's numbers have no form for.
	Value string `json:"value"`
}
