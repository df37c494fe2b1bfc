package prompt

// This file is what is known of engines: which blocks, members and ids they print for a model, and how addresses are
// signed.

// rankOf returns where a member is printed.
func (c *Chainer) rankOf(key []byte, p place) rank {
	kind := kindOfKey(key)
	switch {
	case kind&keyHidden != 0, kind&keyID != 0 && p != inTool && !c.printsIDs:
		return unprinted
	case kind&keyRole != 0 && p == inMessage:
		return rankRole
	case kind&keyTalk != 0 && p < inTool:
		return rankContent
	case kind&keyText != 0 && p == inPart:
		return rankText
	case kind&keyName != 0:
		return rankName
	case kind&keyContent != 0 && p < inTool:
		return rankMedia
	case kind&keyFunction != 0:
		return rankFunction
	case kind&keyCalls != 0:
		return rankCalls
	case kind&keyType != 0:
		return rankType
	case kind == 0 && p == inMessage:
		return rankUnknown
	}
	return rankOther
}

// droppedBlocks begin blocks of a system prompt, in a list, that engines leave out before they print it. A system
// prompt that is one text is printed as it is.
var droppedBlocks = [...]string{
	// What coding clients of Anthropic (Claude Code) say of themselves, with a value that changes in every request.
	// vLLM leaves it out of `system`, since 0.18 (vllm-project/vllm, pull request 36829), and of messages of the system
	// (pull request 44283).
	"x-anthropic-billing-header",
}

// isDropped reports whether engines leave a block of a system prompt out.
func isDropped(text []byte) bool {
	for _, begin := range droppedBlocks {
		if len(text) >= len(begin) && string(text[:len(begin)]) == begin {
			return true
		}
	}
	return false
}

// idModels are in the names of models whose chat templates print the ids of tool calls: those of Mistral, and of
// Moonshot's Kimi K2.
var idModels = [...]string{"stral", "kimi"}

// printsIDs reports whether the chat template of a model prints the ids of tool calls, as far as its name shows it.
func printsIDs(model []byte) bool {
	for _, name := range idModels {
		if contains(model, name) {
			return true
		}
	}
	return false
}

// contains reports whether a word of small letters is in a text, in any case.
//
//go:noinline
func contains(text []byte, word string) bool {
	for i := range len(text) - len(word) + 1 {
		if hasWord(text[i:], word) {
			return true
		}
	}
	return false
}

// hasWord reports whether a text begins with a word of small letters, in any case.
func hasWord(text []byte, word string) bool {
	for i := range len(word) {
		if text[i]|0x20 != word[i] {
			return false
		}
	}
	return true
}

// signingNames begin parameters of signed addresses that differ from one signature to the next, in small letters: of
// Amazon, Google, Alibaba Cloud, Volcengine and Huawei Cloud, most in x-, of Tencent Cloud, in q-, and of Azure, the
// last five. Others may name the object, its version, or how it is processed.
var signingNames = [...]string{
	"signature=", "expires=", "policy=", "x-", "q-", "awsaccesskeyid=", "ossaccesskeyid=", "accesskeyid=",
	"security-token=", "sig=", "st=", "se=", "ske=", "skt=",
}

// signingHosts are addresses that are signed without a signature by name, and how the parameters begin that do so
// there.
var signingHosts = [...]struct {
	in    string // the address, in small letters
	names [3]string
}{
	{"//cdn.discordapp.com/", [...]string{"ex=", "is=", "hm="}},
	{"//media.discordapp.net/", [...]string{"ex=", "is=", "hm="}},
	{"/storage/v1/object/sign/", [3]string{"token="}}, // Supabase, whatever the host
	{"/storage/v1/render/image/sign/", [3]string{"token="}},
	{"//private-user-images.githubusercontent.com/", [3]string{"jwt="}},
	{".b-cdn.net/", [...]string{"token=", "expires=", "token_path="}}, // Bunny
	{".fbcdn.net/", [...]string{"oh=", "oe=", "_nc_"}},                // Meta
	{".cdninstagram.com/", [...]string{"oh=", "oe=", "_nc_"}},
}

// signingOf returns how parameters begin that sign an address, by its path and its query; none if it is not signed.
func signingOf(path, query []byte) []string {
	if len(query) == 0 {
		return nil
	}
	for i := range signingHosts {
		if h := &signingHosts[i]; contains(path, h.in) {
			return h.names[:]
		}
	}
	if contains(query, "sig") {
		return signingNames[:]
	}
	return nil
}

// isSigning reports whether a parameter belongs to a signature.
func isSigning(parameter []byte, names []string) bool {
	for _, name := range names {
		if name != "" && len(parameter) >= len(name) && hasWord(parameter, name) {
			return !contains(parameter, "process")
		}
	}
	return false
}
