package hcltext

import (
	"bytes"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
)

// The limits of one file. The parser is recursive, so depth is limited before it begins.
const (
	MaxFileSize  = 256 << 10
	MaxNesting   = 64
	maxUnary     = 64
	maxQuestions = 256
)

// Parse parses a file, as HCL, or as JSON if its first character is a brace. If the file is too large or too deeply nested, or has a syntax error, or a for
// expression, it says so and the file's body must not be used. The file can be shown in diagnostics in any case.
func Parse(filename string, src []byte) (*hcl.File, hcl.Diagnostics) {
	unread := &hcl.File{Body: hcl.EmptyBody(), Bytes: src}
	start := hcl.Range{Filename: filename, Start: hcl.InitialPos, End: hcl.InitialPos}
	if len(src) > MaxFileSize {
		unread.Bytes = nil
		return unread, problem(start, "File too large", fmt.Sprintf("It has %d bytes; the limit is %d.", len(src), MaxFileSize))
	}
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	if isJSON(src) {
		depth, huge := scanJSON(src)
		switch {
		case depth > MaxNesting:
			return unread, tooDeep(start)
		case huge:
			return unread, tooLarge(start)
		}
		return orUnread(unread)(json.Parse(src, filename))
	}
	if diags := checkTokens(filename, src); diags.HasErrors() {
		return unread, diags
	}
	file, diags := hclsyntax.ParseConfig(src, filename, hcl.InitialPos)
	if body, ok := bodyOf(file); ok && !diags.HasErrors() {
		diags = append(diags, refuseLoops(body)...)
	}
	return orUnread(unread)(file, diags)
}

func bodyOf(file *hcl.File) (*hclsyntax.Body, bool) {
	if file == nil {
		return nil, false
	}
	body, ok := file.Body.(*hclsyntax.Body)
	return body, ok
}

func orUnread(unread *hcl.File) func(*hcl.File, hcl.Diagnostics) (*hcl.File, hcl.Diagnostics) {
	return func(file *hcl.File, diags hcl.Diagnostics) (*hcl.File, hcl.Diagnostics) {
		if file == nil || file.Body == nil {
			file = unread
		}
		return file, diags
	}
}

func isJSON(src []byte) bool {
	src = bytes.TrimLeft(src, " \t\r\n")
	return len(src) > 0 && src[0] == '{'
}

func tooDeep(at hcl.Range) hcl.Diagnostics {
	return problem(at, "Too deeply nested", fmt.Sprintf("Blocks, lists and operators can be nested %d deep.", MaxNesting))
}

func tooLarge(at hcl.Range) hcl.Diagnostics {
	return problem(at, "Number too large", "An exponent has at most three digits.")
}

// scanJSON returns how deep arrays and objects are nested, and whether a number is too large to be written out.
func scanJSON(src []byte) (deepest int, huge bool) {
	depth, inString := 0, false
	for i := 0; i < len(src); i++ {
		switch c := src[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		case (c == 'e' || c == 'E') && isHugeExponent(src[i+1:]):
			huge = true
		}
	}
	return deepest, huge
}

// isHugeExponent reports whether text begins with an exponent of more than three digits.
func isHugeExponent(text []byte) bool {
	text = bytes.TrimLeft(text, "+-")
	return len(text)-len(bytes.TrimLeft(text, "0123456789")) > 3
}

// checkTokens looks at what makes the parser call itself (brackets, templates, runs of unary operators, conditionals), and for numbers too large to be
// written out.
func checkTokens(filename string, src []byte) hcl.Diagnostics {
	tokens, _ := hclsyntax.LexConfig(src, filename, hcl.InitialPos)
	return checkDepth(tokens)
}

func checkDepth(tokens hclsyntax.Tokens) hcl.Diagnostics {
	depth, unary, questions := 0, 0, 0
	for _, t := range tokens {
		run := 0
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			depth++
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd:
			depth--
		case hclsyntax.TokenMinus, hclsyntax.TokenBang:
			run = unary + 1
		case hclsyntax.TokenNumberLit:
			if i := bytes.IndexAny(t.Bytes, "eE"); i >= 0 && isHugeExponent(t.Bytes[i+1:]) {
				return tooLarge(t.Range)
			}
		case hclsyntax.TokenQuestion:
			questions++
		}
		unary = run
		if depth > MaxNesting || unary > maxUnary || questions > maxQuestions {
			return tooDeep(t.Range)
		}
	}
	return nil
}

// refuseLoops refuses for expressions, whose results could be of any size. There is nothing to loop over in these files anyway.
func refuseLoops(n hclsyntax.Node) hcl.Diagnostics {
	return hclsyntax.VisitAll(n, func(n hclsyntax.Node) hcl.Diagnostics {
		if loop, ok := n.(*hclsyntax.ForExpr); ok {
			return problem(loop.Range(), "No loops here", "Files of this kind have no for expressions; write the elements out.")
		}
		return nil
	})
}

// CheckTemplate applies the limits of a file to a text that is to be read as a template, as those of the JSON form are where there are variables.
func CheckTemplate(text string, at hcl.Range) hcl.Diagnostics {
	src := []byte(text)
	tokens, _ := hclsyntax.LexTemplate(src, at.Filename, hcl.InitialPos)
	diags := checkDepth(tokens)
	if !diags.HasErrors() {
		if expr, found := hclsyntax.ParseTemplate(src, at.Filename, hcl.InitialPos); !found.HasErrors() {
			diags = refuseLoops(expr)
		}
	}
	for _, d := range diags {
		d.Subject = &at
	}
	return diags
}

func problem(at hcl.Range, summary, detail string) hcl.Diagnostics {
	return hcl.Diagnostics{Error(at, summary, detail)}
}

// Error returns an error at a place.
func Error(at hcl.Range, summary, detail string) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: &at}
}
