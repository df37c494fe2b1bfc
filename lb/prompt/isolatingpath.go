package prompt

import "strings"

// modelSegments are segments of paths behind which the name of a model stands: of Gemini, Vertex AI, Triton and
// Hugging Face, of Azure OpenAI, of Vertex AI's and Databricks's endpoints, and of Amazon Bedrock.
var modelSegments = [...]string{
	"models", "tunedModels", "deployments", "engines", "endpoints", "serving-endpoints", "model",
}

// callSegments are segments behind such a name: what is asked of the model. What is not listed is part of the name,
// such as a version, since two names that are taken for one cost more than one that is taken for two.
var callSegments = [...]string{
	"generate", "generate_stream", "infer", "predict", "invoke", "invoke-with-response-stream", "invocations",
	"converse", "converse-stream", "completions", "chat", "responses", "messages", "embeddings", "rerank", "v1",
}

// IsolatingPath returns the name of the model that the path of a request contains, for keys of prompts, "" if there is
// none. Unlike [ModelInPath] it takes what it does not know for a part of the name:
//
//	/v1beta/models/gemini-pro:generateContent, /v2/models/llama/versions/2/generate,
//	/openai/deployments/gpt/chat/completions, /model/anthropic.claude-v1:0/converse
func IsolatingPath(path string) string {
	path, _, _ = strings.Cut(path, "?")
	for path != "" {
		var segment string
		if segment, path, _ = strings.Cut(path, "/"); isIn(modelSegments[:], []byte(segment)) {
			break
		}
	}
	path = strings.TrimRight(path, "/")
	last := strings.LastIndexByte(path, '/') + 1
	if verb := strings.LastIndexByte(path[last:], ':'); verb >= 0 {
		return path[:last+verb]
	}
	for path != "" {
		last = strings.LastIndexByte(path, '/') + 1
		if !isIn(callSegments[:], []byte(path[last:])) {
			break
		}
		path = path[:max(last-1, 0)]
	}
	return path
}
