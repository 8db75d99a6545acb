package pluginhost

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/setpointd/setpoint/sdk/cluster"
)

const (
	maxText = 4 << 10 // bytes of one text of a plugin's
	maxCode = 128
)

// clean returns a plugin's text as it may be stored and shown: valid UTF-8 of at most maxText bytes, without control characters, which could do things to a
// terminal.
func clean(s string) string {
	if len(s) > maxText {
		const ellipsis = "…"
		cut := maxText - len(ellipsis)
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + ellipsis
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.IndexFunc(s, unprintable) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		if unprintable(r) {
			return ' '
		}
		return r
	}, s)
}

func unprintable(r rune) bool {
	return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
}

// commonCodes are the codes whose meaning Setpoint itself defines and that any plugin may use. Codes about plugins and the cluster as a whole are the core's
// alone.
var commonCodes = map[cluster.Code]bool{
	cluster.CodeConstraint: true, cluster.CodeInsufficientResources: true, cluster.CodePortTaken: true, cluster.CodeOnePerNode: true,
	cluster.CodeNoNodes: true, cluster.CodeNodePaused: true, cluster.CodeNodeDraining: true, cluster.CodeNodeSilent: true, cluster.CodeNodeDown: true,
	cluster.CodeWaitingForBudget: true, cluster.CodeWaitingForReplacement: true, cluster.CodeWaitingForStop: true, cluster.CodeWaitingForAgent: true,
	cluster.CodeWaitingForTurn: true, cluster.CodeUnhealthy: true, cluster.CodeRestartDelay: true, cluster.CodeRestartBudgetUsed: true, cluster.CodeUpdatePaused: true,
	cluster.CodeAddressPoolExhausted: true, cluster.CodePlacedRecently: true,
}

// names are the two names of a plugin.
type names struct {
	configured string
	described  string // by itself; may differ
}

// code returns a plugin's code as it is kept: one of the common codes as it is, any other with the plugin's configured name before it.
func (n names) code(s string) cluster.Code {
	if commonCodes[cluster.Code(s)] {
		return cluster.Code(s)
	}
	rest := strings.TrimPrefix(s, n.configured+".")
	if rest == s && n.described != "" {
		rest = strings.TrimPrefix(s, n.described+".")
	}
	rest = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '_', r == '-', r == '.':
			return r
		case 'A' <= r && r <= 'Z':
			return unicode.ToLower(r)
		}
		return '_'
	}, rest)
	if rest == "" {
		rest = "unspecified"
	}
	return cluster.Code(n.configured + "." + rest[:min(len(rest), maxCode)])
}
