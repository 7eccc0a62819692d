import FMImaging

extension ImageModelFamily {
  /// Counts up when a rule or a limit of the table changes.
  public static let tableVersion = 1

  /// All families. The first whose pattern fits a name has it, so that the narrower come first.
  ///
  /// Sources: OpenAI, "Images and vision" (tiles; patches of 32 px, at most 1536) and measured
  /// usage; Anthropic, "Vision" (1568 px, 1092 x 1092 for a square) and measured usage (28 px
  /// cells); Google, "Understand and count tokens" and "Media resolution"; the preparation code of
  /// Qwen, LLaVA, Gemma 3, Idefics3, Pixtral and others in llama.cpp and Ollama.
  public static let all: [ImageModelFamily] = [
    ImageModelFamily(
      "openai-patches", openAIPatches, .weightedCells(side: 32, cap: 1536, hundredths: 162),
      "gpt41mini"),
    ImageModelFamily(
      "openai-patches-nano", openAIPatches, .weightedCells(side: 32, cap: 1536, hundredths: 246),
      "gpt41nano", "gpt5nano"),
    ImageModelFamily(
      "openai-patches-5", openAIPatches, .weightedCells(side: 32, cap: 1536, hundredths: 162),
      "gpt5mini"),
    ImageModelFamily(
      "openai-patches-o4", openAIPatches, .weightedCells(side: 32, cap: 1536, hundredths: 172),
      "^o4mini"),
    ImageModelFamily(
      "openai-tiles-4o-mini", openAITiles, .openAITiles(base: 2833, tile: 5667), "gpt4omini"),
    ImageModelFamily(
      "openai-tiles-o", openAITiles, .openAITiles(base: 75, tile: 150), "^o1", "^o3"),
    ImageModelFamily(
      "openai-tiles-5", openAITiles, .openAITiles(base: 70, tile: 140), "gpt5", "chatgpt5"),
    ImageModelFamily(
      "openai-tiles", openAITiles, .openAITiles(base: 85, tile: 170), isExact: true,
      "gpt4o", "gpt41", "gpt45", "gpt4turbo", "gpt4vision", "chatgpt4o"),
    ImageModelFamily(
      "claude-large", ImagePolicy(maxLongEdge: 2576, maxPixels: 4784 * 28 * 28),
      .cells(side: 28, cap: 4784), "claudeopus47", "claudeopus48"),
    ImageModelFamily(
      "claude", ImagePolicy(maxLongEdge: 1568, maxPixels: 1092 * 1092),
      .cells(side: 28, cap: 1568), isExact: true, "claude"),
    ImageModelFamily(
      "gemini-3", ImagePolicy(maxLongEdge: 3072), .flat(1100), "gemini3"),
    ImageModelFamily("gemini", ImagePolicy(maxLongEdge: 3072), .geminiTiles, "gemini"),
    // The models take sixteen times as much; 1280 cells are what their makers advise.
    ImageModelFamily(
      "qwen3-vl", ImagePolicy(maxLongEdge: nil, maxPixels: 1280 * 32 * 32, sideMultiple: 32),
      .roundedCells(side: 32, least: 65536, most: 16_777_216), isExact: true,
      "qwen3vl", "qwen35", "qwen36"),
    ImageModelFamily(
      "qwen2-vl", ImagePolicy(maxLongEdge: nil, maxPixels: 1280 * 28 * 28, sideMultiple: 28),
      .roundedCells(side: 28, least: 3136, most: 12_845_056), isExact: true,
      "qwen25vl", "qwen2vl", "qwenvl", "qvq"),
    ImageModelFamily(
      "llava", ImagePolicy(maxLongEdge: 672), .flat(576), isExact: true,
      "llava15", "llavav15", "^llava7b", "^llava13b", "bakllava"),
    ImageModelFamily(
      "llava-next", ImagePolicy(maxLongEdge: 1344, maxPixels: 672 * 672),
      .nearestGrid(side: 336, each: 576, most: 4), "llava"),
    // Squeezed into a square, so each side keeps what it can.
    ImageModelFamily(
      "gemma-3", ImagePolicy(maxLongEdge: 1792, maxShortEdge: 896), .flat(256), isExact: true,
      "gemma3", "medgemma"),
    ImageModelFamily(
      "smolvlm-tiles-384", ImagePolicy(maxLongEdge: 1536),
      .framedTiles(longEdge: 1536, side: 384, each: 81), "smolvlminstruct", "smolvlm22b",
      "smolvlm222b"),
    ImageModelFamily(
      "smolvlm", ImagePolicy(maxLongEdge: 2048),
      .framedTiles(longEdge: 2048, side: 512, each: 64), "smolvlm", "smoldocling",
      "granitedocling"),
    ImageModelFamily(
      "idefics3", ImagePolicy(maxLongEdge: 1456),
      .framedTiles(longEdge: 1456, side: 364, each: 169), "idefics3"),
    ImageModelFamily(
      "pixtral", ImagePolicy(maxLongEdge: 1024), .rows(side: 16, maxLongEdge: 1024), isExact: true,
      "pixtral"),
    ImageModelFamily(
      "mistral", ImagePolicy(maxLongEdge: 1540), .rows(side: 28, maxLongEdge: 1540), isExact: true,
      "mistralsmall3", "mistralsmall25", "mistralmedium", "mistrallarge3", "magistral",
      "ministral3"),
    ImageModelFamily(
      "internvl", ImagePolicy(maxLongEdge: 1792, maxPixels: 12 * 448 * 448),
      .nearestGrid(side: 448, each: 256, most: 12), "internvl"),
    ImageModelFamily(
      "minicpm-v", ImagePolicy(maxLongEdge: 1792, maxPixels: 9 * 448 * 448),
      .slices(side: 448, each: 64, most: 9), "minicpmv", "minicpmo"),
    // Seen through cross-attention: hardly any tokens, four tiles of memory.
    ImageModelFamily(
      "llama-3.2-vision", ImagePolicy(maxLongEdge: 2240, maxPixels: 4 * 560 * 560), .flat(1),
      "llama32vision", "llama3211b", "llama3290b", "mllama"),
  ]

  private static let openAITiles = ImagePolicy(maxLongEdge: 2048, maxShortEdge: 768)
  private static let openAIPatches = ImagePolicy(
    maxLongEdge: 2048, maxPixels: 1536 * 32 * 32, sideMultiple: 32)
}
