package send

import (
	"strconv"
	"strings"

	"spore/wire/journalexport"
)

// prepared is an entry as it goes to a store: what it says of Spore's fields is dropped, but for what was cut.
func prepared(e journalexport.Entry, source string) journalexport.Entry {
	e = e.Without(func(name string) bool {
		return strings.HasPrefix(name, journalexport.Prefix) && name != journalexport.Cut
	})
	return append(e, journalexport.Field{Name: SourceField, Value: []byte(source)})
}

// writtenAt is when an entry was written, in µs since 1970; 0 where it does not say.
func writtenAt(e journalexport.Entry) int64 {
	text, _ := e.Get(TimeField)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// Messages of journald itself (sd-messages.h).
const (
	messageDropped = "a596d6fe7bfa4994828e72309e95d61e" // SD_MESSAGE_JOURNAL_DROPPED
	messageMissed  = "e9bf28e6e834481bb6f48f548ad13606" // SD_MESSAGE_JOURNAL_MISSED
)

// lost is how many messages journald says that it dropped, in this entry, and why.
func lost(e journalexport.Entry) (count uint64, why string) {
	if by, _ := e.Get("_TRANSPORT"); by != "driver" { // No program can write that.
		return 0, ""
	}
	id, _ := e.Get("MESSAGE_ID")
	text, _ := e.Get("MESSAGE")
	switch id {
	case messageDropped:
		if n, ok := e.Get("N_DROPPED"); ok {
			return number(n), lostRate
		}
		return secondWord(text, "Suppressed"), lostRate
	case messageMissed:
		return secondWord(text, "Missed"), lostKernel
	}
	return 0, ""
}

// secondWord is the number in a text such as "Missed 17 kernel messages".
func secondWord(text, first string) uint64 {
	words := strings.SplitN(text, " ", 3)
	if len(words) < 2 || words[0] != first {
		return 0
	}
	return number(words[1])
}

func number(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0
	}
	return n
}
